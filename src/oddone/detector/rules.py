"""Rules: what of an image becomes its anomaly score. Where several do, they are summed."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float16, Int
from torch import Tensor
from torch.nn.functional import normalize

from oddone.density import Gaussians
from oddone.errors import SettingsError
from oddone.fusion import PerView

Rule = Literal["distance", "mean_embedding", "energy", "neighbours"]
"""By the fused distances of the views to the nearest class (the paper), by the distance of the mean
of the upright views' embeddings, by the energy of the classifier's logits (Liu et al., 2020), or by
the cosine distance to the nearest training images (Sun et al., 2022)."""

NEIGHBOURS = 5


class StandardisedRule(NamedTuple):
    """A rule, and how its scores are spread over normal images: so that rules can be summed."""

    rule: Rule
    mean: float = 0.0
    deviation: float = 1.0


def standardised(rule: Rule, scores: Float[Tensor, " images"]) -> StandardisedRule:
    """Return a rule with the mean and deviation of its scores of normal images."""
    deviation = float(scores.double().std(correction=0))
    # Scores that are all alike decide nothing, whatever they are divided by.
    return StandardisedRule(
        rule, float(scores.double().mean()), deviation if deviation > 0 else 1.0
    )


def view_distances(
    gaussians: Gaussians, compared: Float[Tensor, "views images dim"], poses: Int[Tensor, " views"]
) -> PerView:
    """Return how far each view is from each class, by the Gaussians of its own pose."""
    of_rows = poses.to(compared.device).repeat_interleave(compared.shape[1])
    distances: Tensor = gaussians.pose_distances(compared.flatten(0, 1), of_rows)
    per_view: PerView = distances.unflatten(0, compared.shape[:2])
    return per_view


def mean_embedding(
    upright: Float[Tensor, "some images dim"],
) -> Float[Tensor, "images dim"]:
    """Return the mean of the views' embeddings, of unit length: what moving and mirroring leave."""
    return normalize(upright.mean(dim=0), dim=1)


def energy_scores(logits: Float[Tensor, "views images classes"]) -> Float[Tensor, " images"]:
    """Return the free energy -log sum exp of the logits, averaged over the views."""
    energies: Tensor = logits.logsumexp(dim=2).neg()
    return energies.mean(dim=0)


def neighbour_scores(
    references: Float16[Tensor, "references dim"] | Float[Tensor, "references dim"],
    embeddings: Float[Tensor, "images dim"],
) -> Float[Tensor, " images"]:
    """Return 1 minus the mean cosine to the five most similar references, on the CPU."""
    similarity = embeddings.float().cpu() @ normalize(references.float(), dim=1).mT
    best = similarity.topk(min(NEIGHBOURS, len(references)), dim=1).values
    return 1 - best.mean(dim=1)


def sum_of_rules(
    scores: Mapping[Rule, Float[Tensor, " images"]], rules: tuple[StandardisedRule, ...]
) -> Float[Tensor, " images"]:
    """Return the sum of the rules' scores, each in deviations from the mean of normal images."""
    parts = [(scores[rule] - mean) / deviation for rule, mean, deviation in rules]
    return torch.stack([part.cpu() for part in parts]).sum(dim=0)


def check_rules(rules: tuple[StandardisedRule, ...], *, has_classifier: bool) -> None:
    """Raise a SettingsError unless images can be scored by these rules."""
    names = [rule.rule for rule in rules]
    if not rules or len(set(names)) < len(names):
        raise SettingsError(f"rules={names}: choose at least one, and none twice")
    if "energy" in names and not has_classifier:
        raise SettingsError(
            "the rule 'energy' is that of a classifier; fit with classifier='linear'"
        )
    for rule, mean, deviation in rules:
        if not (torch.tensor([mean, deviation]).isfinite().all() and deviation > 0):
            raise SettingsError(
                f"rule {rule!r} has the mean {mean:g} and the deviation {deviation:g}; both must "
                f"be finite, and the deviation positive"
            )
