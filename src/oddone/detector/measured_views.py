"""What is measured of the views of images, before scores and labels are made of it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.detector.probe import class_probabilities
from oddone.detector.rules import Rule, StandardisedRule, energy_scores, mean_embedding
from oddone.fusion import Fuse, PerView

MeasureUpright = Callable[[Float[Tensor, "images dim"]], Float[Tensor, "images classes"]]
"""From embeddings of upright images to their distances to the classes."""


class MeasuredViews(NamedTuple):
    """What is measured of some views of some images."""

    distances: PerView
    logits: Float[Tensor, "some images classes"] | None
    """Of those views that the classifier knows; None: there is no classifier."""
    embeddings: Float[Tensor, "images head_dim"]
    """Of the first view, the image as it is."""
    neighbour_scores: Float[Tensor, " images"] | None
    """Of the first view; None: no rule needs them."""
    upright: Float[Tensor, "some images dim"] | None
    """What distances are measured of, of the upright views; None: no rule needs it."""

    def with_views(self, others: "MeasuredViews") -> "MeasuredViews":
        """Return what is measured of these and of further views of the same images."""
        return self._replace(
            distances=torch.cat([self.distances, others.distances]),
            logits=_joined(self.logits, others.logits),
            upright=_joined(self.upright, others.upright),
        )

    def of_images(self, indices: Int[Tensor, " some"]) -> "MeasuredViews":
        """Return what is measured of some of the images."""
        return MeasuredViews(
            self.distances[:, indices],
            None if self.logits is None else self.logits[:, indices],
            self.embeddings[indices],
            None if self.neighbour_scores is None else self.neighbour_scores[indices],
            None if self.upright is None else self.upright[:, indices],
        )

    def rule_scores(
        self, rules: tuple[StandardisedRule, ...], fuse: Fuse, measure_upright: MeasureUpright
    ) -> dict[Rule, Float[Tensor, " images"]]:
        """Return what each rule says of the images."""
        scores: dict[Rule, Tensor] = {}
        for rule, _, _ in rules:
            if rule == "distance":
                scores[rule] = fuse(self.distances).amin(dim=1)
            elif rule == "mean_embedding" and self.upright is not None:
                scores[rule] = measure_upright(mean_embedding(self.upright)).amin(dim=1)
            elif rule == "energy" and self.logits is not None:
                scores[rule] = energy_scores(self.logits)
            elif rule == "neighbours" and self.neighbour_scores is not None:
                scores[rule] = self.neighbour_scores
        return scores

    def probabilities(self, fuse: Fuse) -> Float[Tensor, "images classes"]:
        """Return how likely each class is."""
        if self.logits is not None:
            return class_probabilities(self.logits)
        # Those of Gaussians of equal volume; the nearest class is the likeliest.
        return (-fuse(self.distances).square() / 2).softmax(dim=1)


def _joined(
    views: Float[Tensor, "some images dim"] | None, others: Float[Tensor, "more images dim"] | None
) -> Float[Tensor, "all images dim"] | None:
    return others if views is None or others is None else torch.cat([views, others])
