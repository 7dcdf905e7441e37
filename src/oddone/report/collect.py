"""Collect all that a report shows of one detector; the figures are drawn from it later."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from PIL import Image

from oddone.data import ImageSet
from oddone.data.decode import (
    BrokenImageError,
    central_square,
    read_picture,
    without_warnings,
)
from oddone.data.fix import aliased_resize, fixed_resize
from oddone.data.folder import pictures_below
from oddone.detector import Detector, Explanation
from oddone.detector.references import choose_evenly
from oddone.detector.view_embedder import batches_of
from oddone.errors import DataError
from oddone.evaluation import Evaluation, accuracy_where_labelled, evaluate_scores, labels_by_name
from oddone.progress import Progress
from oddone.report.cases import MAX_NEIGHBOURS, CaptionedImage, Case
from oddone.report.resize_artefacts import ResizedImage, ResizedPair
from oddone.report.views import ImageViews, image_views
from oddone.wording import describe_neighbour

MAX_CASES = 5
MAX_IND_POINTS, MAX_OOD_POINTS = 1_000, 500  # for t-SNE
MAX_RESIZED = 8


class Judged(NamedTuple):
    """The scores and labels that a detector gives to a set of images."""

    scores: Float64[np.ndarray, " images"]
    labels: Int64[np.ndarray, " images"]


class EmbeddingSample(NamedTuple):
    """Embeddings of some of the images, upright."""

    embeddings: Float[np.ndarray, "some dim"]
    labels: Int64[np.ndarray, " some"]
    """Their classes; -1 for OOD images."""


class ReportData(NamedTuple):
    """All that is shown of one detector."""

    name: str
    classes: tuple[str, ...]
    threshold: float | None
    """None without a calibration."""
    evaluation: Evaluation
    labels: Int64[np.ndarray, " images"]
    """The true classes of the test images; -1 where there is none."""
    ind: Judged
    oods: dict[str, Judged]
    sample: EmbeddingSample
    missed: list[Case]
    """OOD images that pass for normal."""
    misclassified: list[Case]
    """Test images that got the label of another class."""
    typical_images: list[ImageViews]
    """A typical test image, and a typical OOD image."""
    seen_in_training: bool
    """Whether the test images are those that the detector was trained on."""


def collect_report_data(
    name: str,
    detector: Detector,
    known: ImageSet,
    oods: Mapping[str, ImageSet],
    *,
    seed: int,
    progress: Progress | None = None,
) -> ReportData:
    """Return what a report shows of the detector of that name, a batch in memory at a time."""
    labels = labels_by_name(known, detector.classes)
    ind = _judged(detector, known, f"{name}: test images", progress)
    ood_judged = {
        ood_name: _judged(detector, ood, f"{name}: {ood_name}", progress)
        for ood_name, ood in oods.items()
    }
    threshold = None if detector.calibration is None else detector.threshold
    evaluation = evaluate_scores(
        torch.from_numpy(ind.scores),
        {ood_name: torch.from_numpy(judged.scores) for ood_name, judged in ood_judged.items()},
        accuracy=accuracy_where_labelled(torch.from_numpy(ind.labels), labels),
        threshold=threshold,
    )
    return ReportData(
        name,
        detector.classes,
        threshold,
        evaluation,
        labels,
        ind,
        ood_judged,
        _sample(detector, known, oods, np.where(labels < 0, ind.labels, labels), seed),
        _missed(detector, oods, ood_judged),
        _misclassified(detector, known, labels, ind),
        _typical_images(detector, known, ind, oods, ood_judged),
        known.fingerprint == detector.encoder.trained.data_fingerprint,
    )


def resize_both_ways(detector: Detector, folder: Path) -> list[ResizedPair]:
    """Return a few pictures of a folder, resized with antialiasing and without, and scored."""
    resized = list(islice(_resized_pictures(folder), MAX_RESIZED))
    if not resized:
        raise DataError(f"{folder} holds no picture that can be read; name another folder")
    size = detector.image_size
    images = [np.asarray(central_square(small, size)) for pair in resized for small in pair]
    scores = detector(np.stack(images).transpose(0, 3, 1, 2)).scores.tolist()
    return [
        ResizedPair(
            ResizedImage(np.asarray(antialiased), scores[2 * index]),
            ResizedImage(np.asarray(aliased), scores[2 * index + 1]),
        )
        for index, (antialiased, aliased) in enumerate(resized)
    ]


def _resized_pictures(folder: Path) -> Iterator[tuple[Image.Image, Image.Image]]:
    """Yield pictures of the folder, spread over its list, each resized in both ways."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give one with pictures in it")
    paths = pictures_below(folder)
    step = max(1, len(paths) // MAX_RESIZED)
    spread = [path for start in range(step) for path in paths[start::step]]
    for path in spread:
        try:
            with without_warnings():
                picture = read_picture(Path(path))
                pair = fixed_resize(picture), aliased_resize(picture)
        except BrokenImageError:
            continue  # another will do
        yield pair


def _judged(detector: Detector, images: ImageSet, what: str, progress: Progress | None) -> Judged:
    numbers = {name: label for label, name in enumerate(detector.classes)}

    def show(done: int, total: int, _: str) -> None:
        if progress is not None:
            progress(done, total, what)

    rows = [
        (scored.score, numbers[scored.label])
        for scored in detector.score(images, progress=show)
        if scored.label is not None
    ]
    scores, labels = zip(*rows, strict=True) if rows else ((), ())
    return Judged(np.array(scores, dtype=np.float64), np.array(labels, dtype=np.int64))


def _sample(
    detector: Detector,
    known: ImageSet,
    oods: Mapping[str, ImageSet],
    labels: Int64[np.ndarray, " images"],
    seed: int,
) -> EmbeddingSample:
    """Return embeddings of a few hundred images, of each class and of each OOD set alike."""
    chosen = choose_evenly(labels, MAX_IND_POINTS, seed)
    parts = [_embeddings(detector, known, chosen)]
    classes = [labels[chosen]]
    for ood in oods.values():
        nothing = np.full(len(ood), -1)
        numbers = choose_evenly(nothing, MAX_OOD_POINTS // len(oods), seed)
        parts.append(_embeddings(detector, ood, numbers))
        classes.append(nothing[numbers])
    return EmbeddingSample(np.concatenate(parts), np.concatenate(classes))


def _embeddings(
    detector: Detector, images: ImageSet, numbers: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "some dim"]:
    """Return the embeddings of the upright images, in the space in which they are compared."""
    encoder = detector.encoder
    batches = batches_of(images.images, numbers, encoder.images_at_once)
    return np.concatenate([encoder(batch).embeddings[0].cpu().numpy() for _, batch in batches])


def _missed(
    detector: Detector, oods: Mapping[str, ImageSet], judged: Mapping[str, Judged]
) -> list[Case]:
    """Return the images of each OOD set in turn with the lowest scores that pass for normal."""
    ranked = {name: np.argsort(each.scores, kind="stable") for name, each in judged.items()}
    in_turn = [
        (name, int(ranked[name][index]))
        for index in range(MAX_CASES)
        for name in oods
        if index < len(ranked[name])
    ]
    missed = [
        (name, image) for name, image in in_turn if judged[name].scores[image] <= detector.threshold
    ]
    cases = []
    for name, image in missed[:MAX_CASES]:
        explanation = _explained(detector, oods[name], image)
        taken = f"→ {detector.classes[explanation.label]}"
        cases.append(_case(detector, oods[name], image, explanation, (name, taken)))
    return cases


def _misclassified(
    detector: Detector, known: ImageSet, labels: Int64[np.ndarray, " images"], judged: Judged
) -> list[Case]:
    """Return the test images with the wrong label that have the lowest scores."""
    wrong = np.flatnonzero((labels >= 0) & (labels != judged.labels))
    cases = []
    for image in wrong[np.argsort(judged.scores[wrong], kind="stable")][:MAX_CASES].tolist():
        explanation = _explained(detector, known, image)
        taken = f"→ {detector.classes[explanation.label]}"
        words = (detector.classes[labels[image]], taken)
        cases.append(_case(detector, known, image, explanation, words))
    return cases


def _case(
    detector: Detector,
    images: ImageSet,
    image: int,
    explanation: Explanation,
    words: tuple[str, str],
) -> Case:
    neighbours = [
        CaptionedImage(
            near.thumbnail, detector.classes[near.label], describe_neighbour(near.similarity)
        )
        for near in explanation.neighbours
    ]
    return Case(CaptionedImage(images.images[image].transpose(1, 2, 0), *words), neighbours)


def _typical_images(
    detector: Detector,
    known: ImageSet,
    ind: Judged,
    oods: Mapping[str, ImageSet],
    judged: Mapping[str, Judged],
) -> list[ImageViews]:
    """Return the images with the median score, of the test images and of the first OOD set."""
    sets = [("A typical test image", known, ind)]
    sets += [(f"A typical image of {name}", oods[name], judged[name]) for name in list(oods)[:1]]
    typical_images = []
    for heading, images, each in sets:
        image = int(np.argsort(each.scores, kind="stable")[len(images) // 2])
        explanation = _explained(detector, images, image)
        views = image_views(detector, images.images[image], explanation)
        typical_images.append(ImageViews(heading, explanation.score, views))
    return typical_images


def _explained(detector: Detector, images: ImageSet, image: int) -> Explanation:
    return detector.explain(np.array(images.images[image])[None], MAX_NEIGHBOURS)[0]
