"""A detector without training: fitted to the features of an encoder that is used as it is."""

import copy
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.data import ImageSet
from oddone.data.image_set import without_copies
from oddone.detector import Calibration, Detector
from oddone.detector.calibration import check_false_alarms
from oddone.detector.fitting import choose_evenly, choose_in_proportion, training_indices
from oddone.detector.references import References
from oddone.detector.view_embedder import ViewEmbedder
from oddone.device import with_gradients
from oddone.encoders import TrainedNetwork
from oddone.encoders.network import Centre
from oddone.errors import DataError, SettingsError, did_you_mean
from oddone.features import embed_once
from oddone.fusion import average
from oddone.progress import Progress
from oddone.rng import stream
from oddone.selection.candidates import CANDIDATES, Candidate, FittedRules
from oddone.selection.estimate import (
    Choice,
    Estimate,
    FoldScores,
    choose_candidate,
    comparable,
    held_out_scores,
    score_folds,
    standardise,
)
from oddone.selection.folds import MOST_FOLDS, folds_of_classes, folds_of_images
from oddone.selection.head import DIM, HIDDEN
from oddone.transforms import one_view, rotations_and_mirrors

MOST_FITTED, MOST_WITH_HEAD = 20_000, 5000
"""Images that rules are fitted on and calibrated with: a head has eight views of each."""
MOST_LEFT_OUT = 2000
"""Images that rules are compared with; more would take minutes, and change little."""
FOLDS_WITH_HEADS = 5
"""A head takes seconds, so classes are left out some at a time."""


class FrozenFit(NamedTuple):
    """A detector, and what to expect of it."""

    detector: Detector
    estimate: Estimate | None
    """None where that cannot be told: with one class, or too few images to leave a class out."""


@with_gradients
def fit_frozen(
    trained: TrainedNetwork,
    source: ImageSet,
    *,
    rule: str | None = None,
    learn_head: bool = False,
    false_alarms: float = 0.05,
    per_class: bool = False,
    progress: Progress | None = None,
) -> FrozenFit:
    """Return a calibrated detector on a network that stays as it is.

    The images are embedded once. Then each class is left out in turn to choose the rule, and each
    fifth of the images is held out in turn to calibrate, so that in the end all serve to fit.

    Parameters
    ----------
    trained
        A network without a head, as `oddone.encoders.frozen_network` returns it.
    source
        Labelled images.
    rule
        The name of one of `CANDIDATES`; by default the one that is best at left-out classes, and
        with a head that was learned the distance.
    learn_head
        Whether MCL trains a head on the features of rotated and mirrored images, eight of each, to
        measure distances in.
    false_alarms
        The share of normal images that may be called anomalous.
    per_class
        Whether each predicted class with enough images has a threshold of its own.
    progress
        Called with how far the work is.

    """
    if not isinstance(trained.network.head, Centre):
        raise SettingsError(
            "the network has a head that was trained; make its detector with Detector.fit"
        )
    check_false_alarms(false_alarms)
    training_indices(trained, source, None)  # raises where labels are missing
    # Else what is held out would have been fitted on too.
    indices = without_copies(source)
    labels = torch.from_numpy(source.labels[indices])
    _check_counts(labels, source.classes)
    if learn_head and rule is None:
        rule = "distance"  # what the head is for: leaving classes out would not see its worth
    candidates = CANDIDATES if rule is None else (candidate_by_name(rule),)
    views = rotations_and_mirrors if learn_head else one_view
    features = embed_once(trained, views, source, indices, progress=progress)
    choice = _choose(features, labels, source.classes, candidates, progress)
    candidate = (
        _without_leaving_out(candidates, len(source.classes))
        if choice is None
        else choice.candidate
    )
    # The classes mix as new images do, or the threshold would be that of another mix.
    most = MOST_WITH_HEAD if learn_head else MOST_FITTED
    some = choose_in_proportion(labels.numpy(), most, generator=stream(0, "fitted"))
    features, labels = features[:, some], labels[some]
    fitted = FittedRules.fit(features, labels)
    scores = _cross_validate(features, labels, fitted.shrinkage, progress)
    rules = standardise(scores, candidate)
    predicted = torch.cat([fold.held_out.labels for fold in scores]) if per_class else None
    calibration = Calibration.of(held_out_scores(scores, rules), false_alarms, predicted)
    detector = Detector(
        ViewEmbedder(_with_head(trained, fitted.head), one_view),
        "head",
        fitted.gaussians.to(trained.device, torch.float32),
        None if fitted.probe is None else fitted.probe.to(trained.device),
        average,
        References.of(fitted.embeddings, source, indices[some[fitted.references.numpy()]]),
        rules,
        calibration,
    )
    return FrozenFit(detector, None if choice is None else Estimate.of(choice, scores))


def candidate_by_name(name: str) -> Candidate:
    """Return the rule, or the sum of rules, with this name."""
    by_name = {candidate.name: candidate for candidate in CANDIDATES}
    if name not in by_name:
        hint = did_you_mean(name, by_name, otherwise=f"choose one of {', '.join(by_name)}")
        raise SettingsError(f"there is no rule {name!r}; {hint}")
    return by_name[name]


def _check_counts(labels: Int[Tensor, " images"], classes: tuple[str, ...]) -> None:
    counts = labels.bincount(minlength=len(classes))
    if counts.min() == 0:
        name = classes[int(counts.argmin())]
        raise DataError(f"class {name!r} has no images; add some, or leave the class out")
    if counts.max() == 1:
        raise DataError(
            f"each of the {len(counts)} classes has 1 image (copies do not count), which does not "
            f"show how much images of a class differ; give at least 2 of a class, better 20"
        )


def _choose(
    features: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    classes: tuple[str, ...],
    candidates: tuple[Candidate, ...],
    progress: Progress | None,
) -> Choice | None:
    """Return the rule that is best at classes that are left out; None if none can be left out."""
    chosen = choose_evenly(labels.numpy(), MOST_LEFT_OUT, generator=stream(0, "leave out"))
    some = labels[chosen]
    most = FOLDS_WITH_HEADS if len(features) > 1 else MOST_FOLDS
    folds = folds_of_classes(some.numpy(), generator=stream(0, "folds of classes"), most=most)
    scores = score_folds(features[:, chosen], some, folds, progress)
    usable = comparable(scores, candidates)
    return choose_candidate(scores, classes, usable) if usable else None


def _without_leaving_out(candidates: tuple[Candidate, ...], n_classes: int) -> Candidate:
    for candidate in candidates:
        if n_classes > 1 or "energy" not in candidate.rules:
            return candidate
    raise SettingsError(
        "the rule 'energy' compares classes, and there is only one; choose 'distance'"
    )


def _cross_validate(
    features: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    shrinkage: float,
    progress: Progress | None,
) -> list[FoldScores]:
    """Return what is thought of each image when it is held out: what new normal ones will get."""
    folds = folds_of_images(labels.numpy(), generator=stream(0, "folds of images"))
    scores = score_folds(features, labels, folds, progress, "calibrating", shrinkage=shrinkage)
    if not scores:
        raise DataError(
            f"{len(labels)} images are too few to hold some out and to fit on the others; give at "
            f"least 3 different ones of a class, better 20"
        )
    return scores


def _with_head(trained: TrainedNetwork, head: nn.Sequential | Centre) -> TrainedNetwork:
    """Return the network with another head."""
    network, model = copy.deepcopy(trained.network), trained.model
    network.head = head.to(trained.device)
    if not isinstance(head, Centre):
        model = replace(model, head_hidden=HIDDEN, head_dim=DIM, centred=True)
    return replace(trained, network=network, model=model)
