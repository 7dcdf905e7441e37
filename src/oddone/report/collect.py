"""Collect all that a report shows of one detector; the figures are drawn from it later."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int64
from PIL import Image
from torch import Tensor

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
from oddone.detector.detector import MOST_LEARNED
from oddone.detector.fitting import choose_evenly
from oddone.detector.views import image_views
from oddone.errors import DataError
from oddone.evaluation import Evaluation, ScoredSet, evaluate_verdicts, labels_to_predict
from oddone.progress import Progress
from oddone.report.cases import MAX_NEIGHBOURS, CaptionedImage, Case
from oddone.report.resize_artefacts import ResizedImage, ResizedPair
from oddone.report.views import ImageViews
from oddone.rng import stream
from oddone.scoring import ImageBatch, process_batches, score_images
from oddone.verdicts import Verdicts
from oddone.wording import describe_neighbour, format_score

MAX_CASES = 5
MAX_IND_POINTS, MAX_OOD_POINTS = 1_000, 500  # for t-SNE
MAX_RESIZED = 8


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
    """None without a calibration, or where classes have thresholds of their own."""
    evaluation: Evaluation
    labels: Int64[np.ndarray, " images"]
    """The true classes of the test images; -1 where there is none."""
    ind: Verdicts
    oods: dict[str, Verdicts]
    sample: EmbeddingSample
    missed: list[Case]
    """OOD images that pass for normal."""
    misclassified: list[Case]
    """Test images that got the label of another class."""
    false_alarms: list[Case]
    """Test images that are called anomalous."""
    typical_images: list[ImageViews]
    """A typical test image, and a typical OOD image."""
    seen_in_training: bool
    """Whether there are test images that the detector was trained on."""


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
    labels = labels_to_predict(known, detector.classes)
    ind = score_images(detector, known, progress=progress, description=f"{name}: test images")
    ood_verdicts = {
        ood_name: score_images(detector, ood, progress=progress, description=f"{name}: {ood_name}")
        for ood_name, ood in oods.items()
    }
    evaluation = evaluate_verdicts(
        ScoredSet(known, ind),
        {ood_name: ScoredSet(oods[ood_name], each) for ood_name, each in ood_verdicts.items()},
        classes=detector.classes,
    )
    classes_or_guesses = np.where(labels < 0, ind.labels.numpy(), labels)
    return ReportData(
        name,
        detector.classes,
        _threshold_of_all(detector),
        evaluation,
        labels,
        ind,
        ood_verdicts,
        _sample(detector, known, oods, classes_or_guesses, seed),
        _missed(detector, oods, ood_verdicts),
        _misclassified(detector, known, labels, ind),
        _false_alarms(detector, known, labels, ind),
        _typical_images(detector, known, ind, oods, ood_verdicts),
        detector.share_learned(known) > MOST_LEARNED,
    )


def _threshold_of_all(detector: Detector) -> float | None:
    """Return the threshold, if it is the same for all classes."""
    calibration = detector.calibration
    return None if calibration is None or calibration.own_classes else calibration.threshold


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


def _sample(
    detector: Detector,
    known: ImageSet,
    oods: Mapping[str, ImageSet],
    labels: Int64[np.ndarray, " images"],
    seed: int,
) -> EmbeddingSample:
    """Return embeddings of a few hundred images, of each class and of each OOD set alike."""
    chosen = choose_evenly(labels, MAX_IND_POINTS, generator=stream(seed, "report"))
    parts = [_embeddings(detector, known, chosen)]
    classes = [labels[chosen]]
    for ood in oods.values():
        nothing = np.full(len(ood), -1)
        numbers = choose_evenly(
            nothing, MAX_OOD_POINTS // len(oods), generator=stream(seed, "report")
        )
        parts.append(_embeddings(detector, ood, numbers))
        classes.append(nothing[numbers])
    return EmbeddingSample(np.concatenate(parts), np.concatenate(classes))


def _embeddings(
    detector: Detector, images: ImageSet, indices: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "some dim"]:
    """Return the embeddings of the upright images, in the space in which they are compared."""

    def embed(batch: ImageBatch) -> Float[Tensor, "images dim"]:
        return detector.embedder.embed(batch).in_space(detector.space)[0].cpu()

    batches = process_batches(
        embed,
        images,
        size=detector.image_size,
        batch_size=detector.batch_size,
        indices=indices,
    )
    return np.concatenate([batch.result.numpy() for batch in batches if batch.result is not None])


def _missed(
    detector: Detector, oods: Mapping[str, ImageSet], verdicts: Mapping[str, Verdicts]
) -> list[Case]:
    """Return the images of each OOD set in turn with the lowest scores that pass for normal."""
    ranked = {name: _by_score(each) for name, each in verdicts.items()}
    in_turn = [
        (name, int(ranked[name][index]))
        for index in range(MAX_CASES)
        for name in oods
        if index < len(ranked[name])
    ]
    missed = [(name, image) for name, image in in_turn if not verdicts[name][image].anomalous]
    cases = []
    for name, image in missed[:MAX_CASES]:
        explanation = _explained(detector, oods[name], image)
        taken = f"→ {detector.classes[explanation.verdict.label]}"
        cases.append(_case(detector, oods[name], image, explanation, (name, taken)))
    return cases


def _misclassified(
    detector: Detector, known: ImageSet, labels: Int64[np.ndarray, " images"], verdicts: Verdicts
) -> list[Case]:
    """Return the test images with the wrong label that have the lowest scores."""
    wrong = (labels >= 0) & (labels != verdicts.labels.numpy())
    by_score = _by_score(verdicts)
    cases = []
    for image in by_score[wrong[by_score]][:MAX_CASES].tolist():
        explanation = _explained(detector, known, image)
        taken = f"→ {detector.classes[explanation.verdict.label]}"
        words = (detector.classes[labels[image]], taken)
        cases.append(_case(detector, known, image, explanation, words))
    return cases


def _false_alarms(
    detector: Detector, known: ImageSet, labels: Int64[np.ndarray, " images"], verdicts: Verdicts
) -> list[Case]:
    """Return the test images that are called anomalous, the most anomalous first."""
    if verdicts.anomalous is None:
        return []
    by_score = _by_score(verdicts)[::-1]
    cases = []
    for image in by_score[verdicts.anomalous.numpy()[by_score]][:MAX_CASES].tolist():
        explanation = _explained(detector, known, image)
        label = labels[image]
        taken = f"→ {detector.classes[explanation.verdict.label]}"  # where it has no label
        words = (
            detector.classes[label] if label >= 0 else taken,
            f"score {format_score(explanation.verdict.score)}",
        )
        cases.append(_case(detector, known, image, explanation, words))
    return cases


def relative_name(paths: Sequence[str], index: int) -> str:
    """Return one of the paths without the folders that all of them share."""
    # By characters, for which notations such as fashion:known[3] are as good as paths.
    shared = os.path.commonprefix(paths)  # noqa: RUF071
    return paths[index][max(shared.rfind("/"), shared.rfind(os.sep)) + 1 :]


def _by_score(verdicts: Verdicts) -> Int64[np.ndarray, " images"]:
    """Return the indices of the images, the lowest score first."""
    return verdicts.scores.argsort(stable=True).numpy()


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
    return Case(
        CaptionedImage(images.images[image].transpose(1, 2, 0), *words),
        neighbours,
        relative_name(images.paths, image),
    )


def _typical_images(
    detector: Detector,
    known: ImageSet,
    ind: Verdicts,
    oods: Mapping[str, ImageSet],
    verdicts: Mapping[str, Verdicts],
) -> list[ImageViews]:
    """Return the images with the median score, of the test images and of the first OOD set."""
    sets = [("A typical test image", known, ind)]
    sets += [(f"A typical image of {name}", oods[name], verdicts[name]) for name in list(oods)[:1]]
    typical_images = []
    for heading, images, each in sets:
        image = int(_by_score(each)[len(images) // 2])
        explanation = _explained(detector, images, image)
        views = image_views(detector, images.images[image], explanation)
        typical_images.append(ImageViews(heading, explanation.verdict.score, views))
    return typical_images


def _explained(detector: Detector, images: ImageSet, image: int) -> Explanation:
    return detector.explain(np.array(images.images[image])[None], MAX_NEIGHBOURS)[0]
