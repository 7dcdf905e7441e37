"""Contrastive losses: SimCLR, SupCLR and MCL, all pairs of masks over `masked_contrast`."""

from oddone.losses.contrast import masked_contrast
from oddone.losses.masks import Masks, Unpaired, count_unpaired
from oddone.losses.mcl import AlphaRange, MCLSettings, MCLTerms, mcl_loss
from oddone.losses.modules import MCLLoss, SimCLRLoss, SupConLoss
from oddone.losses.simclr import simclr_loss
from oddone.losses.supcon import supcon_loss

__all__ = [
    "AlphaRange",
    "MCLLoss",
    "MCLSettings",
    "MCLTerms",
    "Masks",
    "SimCLRLoss",
    "SupConLoss",
    "Unpaired",
    "count_unpaired",
    "masked_contrast",
    "mcl_loss",
    "simclr_loss",
    "supcon_loss",
]
