"""The losses as Modules, for code that composes Modules. They hold settings, no maths."""

import torch
from torch import Tensor, nn

from oddone.losses.mcl import MCLSettings, MCLTerms, mcl_loss
from oddone.losses.simclr import simclr_loss
from oddone.losses.supcon import supcon_loss


class SimCLRLoss(nn.Module):
    """`simclr_loss` at one temperature."""

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, parents: Tensor) -> Tensor:
        return simclr_loss(embeddings, parents, self.temperature)


class SupConLoss(nn.Module):
    """`supcon_loss` at one temperature, with or without siblings."""

    def __init__(self, temperature: float = 0.2, siblings: bool = True) -> None:
        super().__init__()
        self.temperature = temperature
        self.siblings = siblings

    def forward(self, embeddings: Tensor, labels: Tensor, parents: Tensor) -> Tensor:
        return supcon_loss(embeddings, labels, parents, self.temperature, self.siblings)


class MCLLoss(nn.Module):
    """`mcl_loss` with one value of the settings."""

    def __init__(self, settings: MCLSettings | None = None) -> None:
        super().__init__()
        self.settings = MCLSettings() if settings is None else settings

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        poses: Tensor | None,
        parents: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> MCLTerms:
        return mcl_loss(embeddings, labels, poses, parents, self.settings, generator=generator)
