"""The rules to choose from, and what they say of images when fitted on others."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn
from torch.nn.functional import normalize

from oddone.density import Gaussians, tied_oas_share
from oddone.detector.detector import MOST_REFERENCES
from oddone.detector.fitting import choose_in_proportion
from oddone.detector.probe import LinearProbe
from oddone.detector.rules import Rule, energy_scores, neighbour_scores, view_distances
from oddone.encoders.network import Centre
from oddone.rng import stream
from oddone.selection.head import train_head
from oddone.transforms import one_view

ROWS_AT_ONCE = 2048


class Candidate(NamedTuple):
    """A rule, or several whose scores are summed."""

    name: str
    rules: tuple[Rule, ...]


CANDIDATES = (
    Candidate("distance + energy", ("distance", "energy")),
    Candidate("distance", ("distance",)),
    Candidate("energy", ("energy",)),
    Candidate("neighbours", ("neighbours",)),
    Candidate("distance + neighbours", ("distance", "neighbours")),
    Candidate("distance + energy + neighbours", ("distance", "energy", "neighbours")),
)
"""In the order in which they are preferred where the images do not tell them apart."""


class RuleScores(NamedTuple):
    """What the rules say of some images."""

    scores: dict[Rule, Float[Tensor, " images"]]
    labels: Int[Tensor, " images"]
    """The class that each looks like."""


@dataclass(frozen=True, eq=False)
class FittedRules:
    """Everything that a rule needs, fitted on features of unit length."""

    classes: Int[Tensor, " known"]
    """The labels that were there, ascending: the statistics number them from 0."""
    head: nn.Sequential | Centre
    references: Int64[Tensor, " references"]
    """Which of the images neighbours are looked for among: all, unless they are many."""
    embeddings: Float[Tensor, "references dim"]
    """What the head makes of these."""
    shrinkage: float
    """How far the covariance was moved towards a multiple of the identity."""
    gaussians: Gaussians
    probe: LinearProbe | None
    """None where there is one class, and so nothing to tell apart."""

    @staticmethod
    def fit(
        features: Float[Tensor, "views fitted dim"],
        labels: Int[Tensor, " fitted"],
        shrinkage: float | None = None,
    ) -> "FittedRules":
        """Return what is learned from labelled features; raise a DataError if they are too few.

        Those of a single view are compared as they are, around their mean. Those of several first
        train a head (`train_head` says which), and distances are measured in its space. The
        shrinkage is that of OAS unless given.
        """
        classes, numbers = labels.unique(return_inverse=True)
        upright = features[0]
        if len(features) > 1:
            head: nn.Sequential | Centre = train_head(
                features, numbers, generator=stream(0, "head")
            )
        else:
            head = Centre(features.shape[2])
            head.mean.copy_(upright.mean(dim=0))
        embeddings = _embedded(head, upright)
        references = torch.from_numpy(
            choose_in_proportion(
                numbers.numpy(), MOST_REFERENCES, generator=stream(0, "references")
            )
        )
        if shrinkage is None:
            shrinkage = tied_oas_share(embeddings, numbers, len(classes))
        return FittedRules(
            classes,
            head,
            references,
            embeddings[references],
            shrinkage,
            Gaussians.fit_tied(embeddings, numbers, len(classes), shrinkage),
            LinearProbe.fit(upright[None], one_view, numbers, len(classes))
            if len(classes) > 1
            else None,
        )

    def __call__(self, features: Float[Tensor, "images dim"]) -> RuleScores:
        """Return what each rule says of new images, by the features of one view."""
        upright = torch.zeros(1, dtype=torch.long)
        embeddings = _embedded(self.head, features)
        distances = view_distances(self.gaussians, embeddings[None], upright)[0]
        scores: dict[Rule, Tensor] = {
            "distance": distances.amin(dim=1).float(),
            "neighbours": neighbour_scores(self.embeddings, embeddings),
        }
        numbers = distances.argmin(dim=1)
        if self.probe is not None:
            logits = self.probe.logits(features[None], upright)
            scores["energy"] = energy_scores(logits)
            numbers = logits[0].argmax(dim=1)
        return RuleScores(scores, self.classes[numbers])


def _embedded(
    head: nn.Module, features: Float[Tensor, "images dim"]
) -> Float[Tensor, "images head_dim"]:
    """Return what the head makes of features, in unit length, with little memory beside it."""
    return torch.cat([normalize(head(rows), dim=1) for rows in features.split(ROWS_AT_ONCE)])
