"""The losses as Modules, for code that composes Modules. They hold settings, no maths."""

import torch
from torch import Tensor, nn

from oddone.losses.mcl import MCLSettings, MCLTerms, mcl_loss
from oddone.losses.simclr import simclr_loss
from oddone.losses.supcon import supcon_loss


class SimCLRLoss(nn.Module):
    """`simclr_loss` at one temperature.

    Parameters
    ----------
    temperature
        What similarities are divided by.

    Examples
    --------
    >>> import torch
    >>> SimCLRLoss(temperature=0.2)(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(1.0986)

    """

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, embeddings: Tensor, parents: Tensor) -> Tensor:
        return simclr_loss(embeddings, parents, self.temperature)


class SupConLoss(nn.Module):
    """`supcon_loss` at one temperature, with or without siblings.

    Parameters
    ----------
    temperature
        What similarities are divided by.
    siblings
        Whether a row attracts the other views of its own parent too.

    Examples
    --------
    >>> import torch
    >>> loss = SupConLoss(temperature=0.2)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]), torch.arange(4))
    tensor(1.0986)

    """

    def __init__(self, temperature: float = 0.2, siblings: bool = True) -> None:
        super().__init__()
        self.temperature = temperature
        self.siblings = siblings

    def forward(self, embeddings: Tensor, labels: Tensor, parents: Tensor) -> Tensor:
        return supcon_loss(embeddings, labels, parents, self.temperature, self.siblings)


class MCLLoss(nn.Module):
    """`mcl_loss` with one value of the settings.

    Parameters
    ----------
    settings
        Temperature, masks and weights; by default the paper's.

    Examples
    --------
    >>> import torch
    >>> parents = torch.arange(64).repeat(2)
    >>> loss = MCLLoss(MCLSettings(alpha=0.1))
    >>> loss(torch.eye(128), parents % 2, parents // 2 % 4, parents).spa.shape
    torch.Size([])

    """

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
