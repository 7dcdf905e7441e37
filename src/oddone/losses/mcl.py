"""Masked Contrastive Learning: a class-conditional mask (CCM) and positive attraction (SPA)."""

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.errors import SettingsError, SettingsWarning, check_numbers
from oddone.losses.contrast import Denominator, masked_contrast
from oddone.losses.masks import (
    Masks,
    check_parents,
    check_rows,
    count_unpaired,
    draw_partner_images,
    draw_partners,
    float_ids,
    joint_labels,
    number_rows,
    same,
    share,
)
from oddone.losses.simclr import check_temperature

logger = logging.getLogger(__name__)

Attraction = Literal["expectation", "sampled", "sampled-image"]
SpaSiblings = Literal["absent", "ones"]


class AlphaRange(NamedTuple):
    """Between which values of alpha both conditions of Appendix A hold."""

    low: float
    """Convergence: below it SPA pulls each class into one point."""
    high: float
    """Attraction: above it SPA may push the rows of a class apart."""


@dataclass(frozen=True, kw_only=True)
class MCLSettings:
    """The settings of masked contrastive learning; the defaults are the paper's Section 4.

    docs/paper.md says where the paper and its authors' code differ and which setting is which.

    Examples
    --------
    >>> settings = MCLSettings(alpha=0.1, spa_weight=0.5)
    >>> low, high = settings.alpha_range(batch_size=256, classes=10)
    >>> low < settings.alpha < high
    False

    """

    temperature: float = 0.2
    """What similarities are divided by (the paper's tau)."""
    alpha: float = 0.05
    """How strongly rows of one class in one pose repel each other: the factor of Eq. 11."""
    beta: float = 2.5
    """How strongly rows of one class in different poses repel each other: the factor of Eq. 11."""
    spa_weight: float = 1.0
    """The weight of the SPA term (the paper's lambda)."""
    denominator: Denominator = "printed"
    """Whether the attracted row's own term in the denominator has the weight that the mask gives
    it ("printed") or 1/temperature ("softmax")."""
    attraction: Attraction = "expectation"
    """What SPA attracts: "expectation" all partners alike, which is the exact expectation of Eq. 9;
    "sampled" partners that each row draws at random; "sampled-image" the same view of partner
    images, which each image draws at random, as in the authors' code."""
    samples: int = 1
    """How many partners each row draws ("sampled"), or how many images each image
    ("sampled-image")."""
    clamp: bool = False
    """Whether negative similarities are clamped to about zero, as in the authors' code."""
    spa_siblings: SpaSiblings = "absent"
    """Whether SPA's denominator leaves the siblings out, as printed, or counts each as exp(0) = 1,
    as in the authors' code ("ones")."""

    def __post_init__(self) -> None:
        check_numbers(self)
        check_temperature(self.temperature)
        ceiling = 1 / self.temperature
        if not 0 < self.beta <= ceiling:
            raise SettingsError(
                f"beta={self.beta}: choose it above 0 and at most 1/temperature={ceiling}"
            )
        if not 0 < self.alpha <= self.beta:
            raise SettingsError(
                f"alpha={self.alpha}: choose it above 0 and at most beta={self.beta}"
            )
        if not 0 <= self.spa_weight < math.inf:
            raise SettingsError(
                f"spa_weight={self.spa_weight}: choose 0 (no SPA) or a positive number"
            )
        if self.samples < 1:
            raise SettingsError(f"samples={self.samples}: draw at least 1 partner")
        for name, choices in (
            ("denominator", get_args(Denominator)),
            ("attraction", get_args(Attraction)),
            ("spa_siblings", get_args(SpaSiblings)),
        ):
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f"{name}={getattr(self, name)!r}: choose {' or '.join(map(repr, choices))}"
                )

    def alpha_range(self, batch_size: int, classes: int, views: int = 2) -> AlphaRange:
        """Return the interval for alpha that Appendix A derives.

        `batch_size` is the paper's N, the number of parents (posed images), each with so many
        `views`, and `classes` its C, the number of classes times poses. Like the paper, this
        takes 2N/C as the number of partners a row has. The conditions are sufficient, not
        necessary.
        """
        if batch_size < 2 or classes < 1 or views < 2:
            raise SettingsError(
                f"batch_size={batch_size}, classes={classes}, views={views}: the interval of "
                f"alpha needs at least 2 posed images, 1 class and 2 views"
            )
        rows = views * batch_size
        spa_share = self.spa_weight / (1 + self.spa_weight)
        return AlphaRange(
            low=spa_share / (self.temperature * (rows - views)),
            high=1 / (self.temperature * rows / classes),
        )


class MCLTerms(NamedTuple):
    """The MCL loss and its two terms, each a mean over all rows.

    Examples
    --------
    >>> import torch
    >>> MCLTerms(total=torch.tensor(3.0), ccm=torch.tensor(1.0), spa=torch.tensor(2.0)).total
    tensor(3.)

    """

    total: Float[Tensor, ""]
    """What is minimised: `ccm` plus the weighted `spa`."""
    ccm: Float[Tensor, ""]
    """The contrast of views of one parent, with the class-conditional mask."""
    spa: Float[Tensor, ""]
    """The attraction of partners, not yet weighted."""


def mcl_loss(
    embeddings: Float[Tensor, "rows dim"],
    labels: Int[Tensor, " rows"],
    poses: Int[Tensor, " rows"] | None,
    parents: Int[Tensor, " rows"],
    settings: MCLSettings,
    *,
    generator: torch.Generator | None = None,
) -> MCLTerms:
    """Return the MCL loss (Eq. 10) and its two terms. May be negative: as printed it is no softmax.

    A row without a positive adds zero to that term; the number of such rows goes to the log (and
    see `count_unpaired`).

    Parameters
    ----------
    embeddings
        The output of the head; it is normalised here.
    labels
        The class of each row.
    poses
        The quarter rotation of each row; None trains without the auxiliary task.
    parents
        Which posed image each row is a view of: rows with the same parent are a positive pair.
    settings
        Temperature, masks and weights.
    generator
        What draws the partners of SPA; needed unless `attraction` is "expectation".

    Examples
    --------
    >>> import torch
    >>> parents = torch.arange(64).repeat(2)  # two views of each of 64 posed images
    >>> labels, poses = parents % 2, parents // 2 % 4
    >>> embeddings = torch.eye(128).requires_grad_()
    >>> loss = mcl_loss(embeddings, labels, poses, parents, MCLSettings(alpha=0.1))
    >>> loss.total.backward()
    >>> embeddings.grad.shape
    torch.Size([128, 128])

    """
    check_rows(embeddings, labels=labels, parents=parents)
    if poses is None:
        poses = torch.zeros_like(labels)
    check_rows(embeddings, poses=poses)
    check_parents(parents, labels=labels, poses=poses)
    row_ids, parent_ids = number_rows(embeddings), float_ids(parents, embeddings)
    class_ids = float_ids(labels, embeddings)
    group_ids = float_ids(joint_labels(labels, poses), embeddings)
    _report_unpaired(labels, poses, parents)
    _warn_outside_alpha_range(settings, parent_ids, group_ids)
    weigh_partners = _partner_weights(group_ids, parent_ids, settings, generator)

    def masks(block: Tensor, window: Tensor) -> Sequence[Masks]:
        itself, siblings = same(row_ids, block, window), same(parent_ids, block, window)
        twins, class_mates = same(group_ids, block, window), same(class_ids, block, window)
        # Eq. 11: alpha between twins, beta between other class mates, 1/temperature otherwise.
        repel = torch.full_like(itself, 1 / settings.temperature)
        repel.add_(class_mates, alpha=settings.beta - 1 / settings.temperature)
        repel.add_(twins, alpha=settings.alpha - settings.beta)
        ccm = Masks(share(siblings - itself), repel, absent=itself)  # Eq. 6
        attract = weigh_partners(block, window, twins - siblings)  # Eq. 7
        if settings.spa_siblings == "absent":
            spa = Masks(attract, repel, absent=siblings)  # Eq. 9
        else:
            spa = Masks(attract, repel * (1 - siblings), absent=itself)
        return ccm, spa

    total, terms = masked_contrast(
        embeddings,
        labels,
        masks,
        settings.temperature,
        weights=(1.0, settings.spa_weight),
        denominator=settings.denominator,
        clamp=settings.clamp,
    )
    return MCLTerms(total, *terms.unbind())


PartnerWeights = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From a block, its window and the 0/1 mask of partners to the weights by which SPA attracts."""


def _partner_weights(
    group_ids: Float[Tensor, " rows"],
    parent_ids: Float[Tensor, " rows"],
    settings: MCLSettings,
    generator: torch.Generator | None,
) -> PartnerWeights:
    """Return how SPA attracts: all partners equally (Appendix A), or some drawn at random."""
    if settings.attraction == "expectation":
        return lambda _block, _window, partners: share(partners)
    if generator is None:
        raise SettingsError(
            f"attraction={settings.attraction!r} draws partners at random: "
            f"pass mcl_loss a torch.Generator"
        )
    draw = draw_partners if settings.attraction == "sampled" else draw_partner_images
    drawn = draw(group_ids, parent_ids, settings.samples, generator=generator)

    def sampled(block: Tensor, window: Tensor, partners: Tensor) -> Tensor:
        column = torch.empty_like(drawn[:, 0])  # where each row stands in the window
        column[window] = torch.arange(len(window), device=window.device)
        each = partners.new_full((1, 1), 1 / settings.samples).expand(drawn[block].shape)
        weights = torch.zeros_like(partners).scatter_add_(1, column[drawn[block]], each)
        # A row without a partner has drawn itself, which is not a partner: its weights become 0.
        return weights.mul_(partners)

    return sampled


def _report_unpaired(labels: Tensor, poses: Tensor, parents: Tensor) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    unpaired = count_unpaired(labels, poses, parents)
    if any(unpaired):
        logger.info(
            "of %d rows, %d have no sibling (CCM) and %d no partner (SPA); they add nothing",
            len(labels),
            unpaired.ccm,
            unpaired.spa,
        )


_warned: set[MCLSettings] = set()


def _warn_outside_alpha_range(
    settings: MCLSettings, parent_ids: Float[Tensor, " rows"], group_ids: Float[Tensor, " rows"]
) -> None:
    """Warn, once for each value of the settings, that Appendix A advises against this alpha."""
    if settings in _warned or settings.spa_weight == 0 or len(group_ids) == 0:
        return
    batch_size, classes = int(parent_ids.max()) + 1, int(group_ids.max()) + 1
    views = round(len(group_ids) / batch_size)
    if batch_size < 2 or views < 2:
        return
    low, high = settings.alpha_range(batch_size, classes, views)
    if low <= settings.alpha < high:
        return
    _warned.add(settings)
    effect = (
        "pull each class into one point"
        if settings.alpha < low
        else "push the rows of a class apart"
    )
    warnings.warn(
        f"alpha={settings.alpha:g} is outside [{low:.3g}, {high:.3g}), where SPA is known to work "
        f"for {len(group_ids)} rows in {classes} groups (Appendix A of the paper); it may {effect}",
        SettingsWarning,
        stacklevel=3,
    )
