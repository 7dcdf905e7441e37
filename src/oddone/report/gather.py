"""All that a report shows of one detector, from one look at each image; no figures yet."""

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
from oddone.report.artefacts import BothWays, Shrunk
from oddone.report.cases import MOST_NEIGHBOURS, Captioned, Case
from oddone.report.views import Viewed, views_of

MOST_CASES = 5
MOST_IND_POINTS, MOST_OOD_POINTS = 1_000, 500  # for t-SNE
MOST_SHRUNK = 8


class Judged(NamedTuple):
    """What the detector thinks of a set of images."""

    scores: Float64[np.ndarray, " images"]
    labels: Int64[np.ndarray, " images"]


class Sample(NamedTuple):
    """Embeddings of some of the images, upright."""

    embeddings: Float[np.ndarray, "some dim"]
    labels: Int64[np.ndarray, " some"]
    """Their classes; -1 for OOD images."""


class Gathered(NamedTuple):
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
    sample: Sample
    misses: list[Case]
    """OOD images that were taken for normal."""
    mistakes: list[Case]
    """Test images that got the name of another class."""
    viewed: list[Viewed]
    """A typical test image, and a typical OOD image."""
    seen_in_training: bool
    """Whether the test images are those that the detector was trained on."""


def gather(
    name: str,
    detector: Detector,
    known: ImageSet,
    oods: Mapping[str, ImageSet],
    *,
    seed: int,
    progress: Progress | None = None,
) -> Gathered:
    """Return what a report shows of the detector of that name, a batch in memory at a time."""
    labels = labels_by_name(known, detector.classes)
    ind = _judged(detector, known, f"{name}: test images", progress)
    odd = {
        ood_name: _judged(detector, ood, f"{name}: {ood_name}", progress)
        for ood_name, ood in oods.items()
    }
    threshold = None if detector.calibration is None else detector.threshold
    evaluation = evaluate_scores(
        torch.from_numpy(ind.scores),
        {ood_name: torch.from_numpy(judged.scores) for ood_name, judged in odd.items()},
        accuracy=accuracy_where_labelled(torch.from_numpy(ind.labels), labels),
        threshold=threshold,
    )
    return Gathered(
        name,
        detector.classes,
        threshold,
        evaluation,
        labels,
        ind,
        odd,
        _sample(detector, known, oods, np.where(labels < 0, ind.labels, labels), seed),
        _misses(detector, oods, odd),
        _mistakes(detector, known, labels, ind),
        _viewed(detector, known, ind, oods, odd),
        known.fingerprint == detector.encoder.trained.data_fingerprint,
    )


def shrink_both_ways(detector: Detector, folder: Path) -> list[BothWays]:
    """Return a few pictures of a folder, shrunk antialiased and aliased, with their scores."""
    shrunk = list(islice(_readable(folder), MOST_SHRUNK))
    if not shrunk:
        raise DataError(f"{folder} holds no picture that can be read; name another folder")
    size = detector.image_size
    images = [np.asarray(central_square(small, size)) for pair in shrunk for small in pair]
    scores = detector(np.stack(images).transpose(0, 3, 1, 2)).scores.tolist()
    return [
        BothWays(
            Shrunk(np.asarray(fixed), scores[2 * place]),
            Shrunk(np.asarray(aliased), scores[2 * place + 1]),
        )
        for place, (fixed, aliased) in enumerate(shrunk)
    ]


def _readable(folder: Path) -> Iterator[tuple[Image.Image, Image.Image]]:
    """Yield the pictures of the folder, shrunk both ways, those apart from each other first."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give one with pictures in it")
    paths = pictures_below(folder)
    step = max(1, len(paths) // MOST_SHRUNK)
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
) -> Sample:
    """Return embeddings of a few hundred images, of each class and of each OOD set alike."""
    chosen = choose_evenly(labels, MOST_IND_POINTS, seed)
    parts = [_embeddings(detector, known, chosen)]
    classes = [labels[chosen]]
    for ood in oods.values():
        nothing = np.full(len(ood), -1)
        numbers = choose_evenly(nothing, MOST_OOD_POINTS // len(oods), seed)
        parts.append(_embeddings(detector, ood, numbers))
        classes.append(nothing[numbers])
    return Sample(np.concatenate(parts), np.concatenate(classes))


def _embeddings(
    detector: Detector, images: ImageSet, numbers: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "some dim"]:
    """Return where the upright images are, in the space in which the detector compares them."""
    encoder = detector.encoder
    batches = batches_of(images.images, numbers, encoder.images_at_once)
    return np.concatenate([encoder(batch).embeddings[0].cpu().numpy() for _, batch in batches])


def _misses(
    detector: Detector, oods: Mapping[str, ImageSet], judged: Mapping[str, Judged]
) -> list[Case]:
    """Return the least odd images of each OOD set in turn, if they are not flagged."""
    ranked = {name: np.argsort(each.scores, kind="stable") for name, each in judged.items()}
    in_turn = [
        (name, int(ranked[name][place]))
        for place in range(MOST_CASES)
        for name in oods
        if place < len(ranked[name])
    ]
    missed = [
        (name, image) for name, image in in_turn if judged[name].scores[image] <= detector.threshold
    ]
    cases = []
    for name, image in missed[:MOST_CASES]:
        explanation = _explained(detector, oods[name], image)
        taken = f"→ {detector.classes[explanation.label]}"
        cases.append(_case(detector, oods[name], image, explanation, (name, taken)))
    return cases


def _mistakes(
    detector: Detector, known: ImageSet, labels: Int64[np.ndarray, " images"], judged: Judged
) -> list[Case]:
    """Return the least odd of the test images that got a wrong name."""
    wrong = np.flatnonzero((labels >= 0) & (labels != judged.labels))
    cases = []
    for image in wrong[np.argsort(judged.scores[wrong], kind="stable")][:MOST_CASES].tolist():
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
        Captioned(near.thumbnail, detector.classes[near.label], f"similarity {near.similarity:.3f}")
        for near in explanation.neighbours
    ]
    return Case(Captioned(images.images[image].transpose(1, 2, 0), *words), neighbours)


def _viewed(
    detector: Detector,
    known: ImageSet,
    ind: Judged,
    oods: Mapping[str, ImageSet],
    judged: Mapping[str, Judged],
) -> list[Viewed]:
    """Return the images with the median score, of the test images and of the first OOD set."""
    sets = [("A typical test image", known, ind)]
    sets += [(f"A typical image of {name}", oods[name], judged[name]) for name in list(oods)[:1]]
    viewed = []
    for heading, images, each in sets:
        image = int(np.argsort(each.scores, kind="stable")[len(images) // 2])
        explanation = _explained(detector, images, image)
        views = views_of(detector, images.images[image], explanation)
        viewed.append(Viewed(heading, explanation.score, views))
    return viewed


def _explained(detector: Detector, images: ImageSet, image: int) -> Explanation:
    return detector.explain(np.array(images.images[image])[None], MOST_NEIGHBOURS)[0]
