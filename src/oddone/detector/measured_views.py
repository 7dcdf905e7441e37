"""What is measured of the views of images, before scores and labels are made of it."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.detector.probe import class_probabilities
from oddone.detector.rules import Rule, StandardisedRule, energy_scores
from oddone.fusion import Fuse, PerView


class MeasuredViews(NamedTuple):
    """What is measured of some views of some images."""

    distances: PerView
    logits: Float[Tensor, "some images classes"] | None
    """Of those views that the classifier knows; None: there is no classifier."""
    embeddings: Float[Tensor, "images head_dim"]
    """Of the first view, the image as it is."""
    neighbour_scores: Float[Tensor, " images"] | None
    """Of the first view; None: no rule needs them."""

    def with_views(
        self, distances: PerView, logits: Float[Tensor, "others images classes"] | None
    ) -> "MeasuredViews":
        """Return what is measured of these and of further views of the same images."""
        if self.logits is not None and logits is not None:
            logits = torch.cat([self.logits, logits])
        return self._replace(distances=torch.cat([self.distances, distances]), logits=logits)

    def of_images(self, indices: Int[Tensor, " some"]) -> "MeasuredViews":
        """Return what is measured of some of the images."""
        return MeasuredViews(
            self.distances[:, indices],
            None if self.logits is None else self.logits[:, indices],
            self.embeddings[indices],
            None if self.neighbour_scores is None else self.neighbour_scores[indices],
        )

    def rule_scores(
        self, rules: tuple[StandardisedRule, ...], fuse: Fuse
    ) -> dict[Rule, Float[Tensor, " images"]]:
        """Return what each rule says of the images."""
        scores: dict[Rule, Tensor] = {}
        for rule, _, _ in rules:
            if rule == "distance":
                scores[rule] = fuse(self.distances).amin(dim=1)
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
