"""The detector: images in, verdicts out."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.data import ImageSet, load
from oddone.data.stream import Source
from oddone.density import Gaussians
from oddone.detector.adaptive import (
    PartialVerdicts,
    ViewStage,
    all_stages,
    check_stages,
    learn_stages,
    possible_stages,
)
from oddone.detector.artifact import DetectorParts, load_parts, save_parts, scoring_digest
from oddone.detector.calibration import Calibration
from oddone.detector.fitting import (
    PosedEmbeddings,
    checked_indices,
    choose_evenly,
    fit_statistics,
    group_names,
    training_indices,
)
from oddone.detector.inputs import Images, to_batch
from oddone.detector.measured_views import MeasuredViews
from oddone.detector.probe import LinearProbe, NetworkClassifier, view_logits
from oddone.detector.references import References
from oddone.detector.rules import (
    Rule,
    StandardisedRule,
    check_rules,
    neighbour_scores,
    standardised,
    sum_of_rules,
    view_distances,
)
from oddone.detector.settings import DetectorSettings
from oddone.detector.summary import summary
from oddone.detector.view_embedder import Pixels, Space, ViewEmbedder
from oddone.device import map_in_threads
from oddone.encoders import TrainedNetwork, frozen_network
from oddone.errors import DataWarning, SettingsError, SettingsWarning
from oddone.files import DETECTOR_NAME, file_or_in_run
from oddone.fusion import Fuse, PerView
from oddone.progress import Progress, described
from oddone.rng import stream
from oddone.scored_images import DecidedImage, ScoredImage, scored_images
from oddone.scoring import ImageBatch, process_batches
from oddone.transforms import one_view
from oddone.verdict import Neighbour, Verdict
from oddone.verdicts import Verdicts

MOST_LEARNED = 0.05
"""A test set may well have a few copies of training images."""
MOST_REFERENCES = 5000
MOST_PROBED = 20_000
"""Images that the linear probe is fitted on; more would take memory, and add little."""


class Explanation(NamedTuple):
    """Why an image got its verdict."""

    verdict: Verdict
    distances: Float[Tensor, "views classes"]
    """How far each view is from each class; the score is the smallest after fusion."""
    neighbours: tuple[Neighbour, ...]
    """The training images that are most like it."""


class _Measured(NamedTuple):
    """All that is measured of some images."""

    rule_scores: dict[Rule, Float[Tensor, " images"]]
    """What each of the detector's rules says; their sum is the score."""
    distances: PerView
    probabilities: Float[Tensor, "images classes"]
    embeddings: Float[Tensor, "images head_dim"]
    """Of the images as they are, to find neighbours by."""


class _Decided(NamedTuple):
    """What was decided about some images."""

    verdicts: Verdicts
    embeddings: Float[Tensor, "images head_dim"]
    """Of the images as they are, to find neighbours by."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A classifier that knows when it is looking at something it has never seen.

    Examples
    --------
    >>> import oddone
    >>> from oddone.presets import smoke
    >>> detector = oddone.train("fashion:known", smoke())
    >>> verdicts = detector(oddone.load("fashion:unseen#test").images[:8])
    >>> verdicts.scores.shape, detector.classes[verdicts[0].label] in detector.classes
    (torch.Size([8]), True)

    """

    embedder: ViewEmbedder
    """The trained network, and the views that it is shown."""
    space: Space
    """Where distances are measured."""
    gaussians: Gaussians
    """One per (pose, class)."""
    classifier: LinearProbe | NetworkClassifier | None
    """What gives the label; None: the nearest class does, as in the paper."""
    fuse: Fuse
    """How the distances of the views become one."""
    references: References
    """Training images to show beside a new one, and to measure neighbours by."""
    rules: tuple[StandardisedRule, ...] = (StandardisedRule("distance"),)
    """What becomes the anomaly score; the paper's is the distance alone."""
    calibration: Calibration | None = None
    """What gives the threshold and p-values; None: images are scored, not decided about."""
    stages: tuple[ViewStage, ...] = ()
    """After how many views an image may be decided (adaptive SEI); empty: after all of them."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the detector comes from: versions, command, data."""

    def __post_init__(self) -> None:
        check_rules(self.rules, has_classifier=self.classifier is not None)
        check_stages(self.stages, self.embedder.views, calibrated=self.calibration is not None)

    @staticmethod
    def fit(
        trained: TrainedNetwork | nn.Module,
        source: ImageSet | str,
        settings: DetectorSettings | None = None,
        *,
        indices: Int[np.ndarray, " some"] | None = None,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector: one Gaussian per (pose, class) of the un-augmented training images.

        Parameters
        ----------
        trained
            The network, as `oddone.encoders.load_network` returns it, or an encoder of your own,
            from images to features, that is used as it is; see `oddone.encoders.frozen_network`.
        source
            The images that it was trained on, with labels. They are read once, in batches. An
            encoder of your own sees them in the size that they have.
        settings
            By default, those that suit what the network was trained to do.
        indices
            Which of the images to fit on; all by default.
        progress
            Called with how many images are done.

        """
        if isinstance(trained, nn.Module):
            source = load(source) if isinstance(source, str) else source
            size, fingerprint = source.images.shape[-1], source.fingerprint
            trained = frozen_network(trained, size, source.classes, fingerprint)
        if settings is None:
            settings = DetectorSettings.suited_to(trained)
        if settings.classifier == "network" and trained.network.classifier is None:
            raise SettingsError(
                "classifier='network': no classifier was trained with this network; choose "
                "'linear', which fits one now, or 'nearest'"
            )
        if settings.views.n_poses > 1 and trained.rotations != "task":
            warnings.warn(
                f"the encoder was trained with rotations={trained.rotations!r}, so it cannot tell "
                f"poses apart and views={settings.views.name} will make it worse; use one_view, or "
                f"train with rotations='task'",
                SettingsWarning,
                stacklevel=2,
            )
        source = _loaded(source, trained.image_size)
        indices = training_indices(trained, source, indices)
        return _fitted(ViewEmbedder(trained, settings.views), source, indices, settings, progress)

    def save(self, path: Path | str) -> None:
        """Write the detector to one file, with all that is needed to score images.

        Parameters
        ----------
        path
            The file, by convention with the ending `.oddone`. It is written whole or not at all.

        """
        save_parts(path, self._parts())

    def scoring_digest(self) -> str:
        """Return a hash that changes with whatever changes scores; a calibration does not."""
        return scoring_digest(self._parts())

    def _parts(self) -> DetectorParts:
        return DetectorParts(
            self.embedder,
            self.space,
            self.gaussians,
            self.classifier,
            self.fuse,
            self.references,
            self.rules,
            self.calibration,
            self.stages,
            self.provenance,
        )

    @staticmethod
    def load(
        path: Path | str, *, encoder: nn.Module | None = None, sha256: str | None = None
    ) -> "Detector":
        """Return the detector in a file, or in the directory of a finished run, on the CPU.

        Parameters
        ----------
        path
            A file that `save` has written, or the directory that `oddone train --out` has made.
        encoder
            A module such as the one that was trained, if that was one of your own.
        sha256
            The SHA-256 that the file must have, in hexadecimal digits, as `sha256sum` prints it.
            The digest in the file itself tells of damage; this one, if it reached you by another
            way, tells of forgery too.

        """
        file = file_or_in_run(Path(path), DETECTOR_NAME)
        return Detector(*load_parts(file, encoder=encoder, sha256=sha256))

    def __repr__(self) -> str:
        return summary(self)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.embedder.trained.classes

    @property
    def image_size(self) -> int:
        """Height and width of the images that the encoder sees."""
        return self.embedder.trained.image_size

    @property
    def batch_size(self) -> int:
        """How many images make a good batch."""
        return self.embedder.rows_at_once if self.stages else self.embedder.batch_size

    @property
    def threshold(self) -> float | None:
        """The score above which an image is anomalous; None without a calibration.

        A detector that was calibrated per class has `thresholds`; this is that of all classes.
        """
        return None if self.calibration is None else self.calibration.threshold

    @property
    def thresholds(self) -> tuple[float, ...] | None:
        """The threshold of each predicted class, in the order of `classes`.

        They are all the same unless the detector was calibrated per class; None without a
        calibration.
        """
        if self.calibration is None:
            return None
        return tuple(self.calibration.thresholds(torch.arange(len(self.classes))).tolist())

    def to(self, device: torch.device | str) -> "Detector":
        """Return the detector on another device; this one stays where it is.

        Parameters
        ----------
        device
            Such as "cuda".

        """
        return replace(
            self,
            embedder=self.embedder.to(device),
            gaussians=self.gaussians.to(device),
            classifier=None if self.classifier is None else self.classifier.to(device),
        )

    def __call__(self, images: Images) -> Verdicts:
        """Return the verdicts on images: one or several, of any kind and size.

        Parameters
        ----------
        images
            A path, a PIL image, an array of [height, width, 3], a list of these, or a batch of the
            encoder's size: [images, 3, size, size], uint8 or floats from 0 to 1.

        """
        return self._decide(images).verdicts

    def calibrate(
        self,
        source: ImageSet | str,
        *,
        false_alarms: float = 0.05,
        per_class: bool = False,
        adaptive: bool = False,
        indices: Int[np.ndarray, " some"] | None = None,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector whose threshold calls this share of normal images anomalous.

        Parameters
        ----------
        source
            Normal images that were not trained on; their labels do not matter. They should mix as
            the images to come do.
        false_alarms
            The share of normal images that may be called anomalous.
        per_class
            Whether each predicted class has a threshold of its own, where it has enough images to
            promise that share: 19 for one in twenty.
        adaptive
            Whether images are from now on scored by only as many views as their verdict needs;
            it takes 399 images to learn that. `explain` still shows all views.
        indices
            Which of the images to calibrate with; all by default.
        progress
            Called with how many images are done.

        """
        source, added = _loaded(source, self.image_size), []
        if indices is None:
            self._warn_unless_new(source)
        if adaptive:
            upright_first = isinstance(self.classifier, NetworkClassifier)
            added = possible_stages(self.embedder.views, upright_first=upright_first)
        batches = process_batches(
            lambda images: self._partial_verdicts(images, added),
            source,
            size=self.image_size,
            batch_size=self.embedder.batch_size,
            indices=checked_indices(source, indices),
            progress=described(progress, "calibrating"),
        )
        results = [batch.result for batch in batches if batch.result is not None]
        nothing = [PartialVerdicts.nothing()] * (len(added) + 1)  # where no image could be read
        by_stage = [
            PartialVerdicts.concatenate(parts) for parts in zip(nothing, *results, strict=True)
        ]
        full = by_stage[-1]
        calibration = Calibration.of(full.scores, false_alarms, full.labels if per_class else None)
        stages = learn_stages(added, by_stage, calibration)
        return replace(self, calibration=calibration, stages=stages)

    def standardise(
        self,
        source: ImageSet | str,
        *,
        indices: Int[np.ndarray, " some"] | None = None,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector whose rules all count alike: in deviations of these images' scores.

        A calibration is dropped, as it was for other scores.

        Parameters
        ----------
        source
            Normal images that were not trained on; their labels do not matter.
        indices
            Which of the images to take; all by default.
        progress
            Called with how many images are done.

        """
        source = _loaded(source, self.image_size)
        if indices is None:
            self._warn_unless_new(source)
        batches = process_batches(
            lambda images: self._measure(images).rule_scores,
            source,
            size=self.image_size,
            batch_size=self.batch_size,
            indices=checked_indices(source, indices),
            progress=described(progress, "comparing rules"),
        )
        scores = _joined([batch.result for batch in batches if batch.result is not None])
        rules = tuple(standardised(rule.rule, scores[rule.rule]) for rule in self.rules)
        return replace(self, rules=rules, calibration=None, stages=())

    def share_learned(self, source: ImageSet) -> float:
        """Return about which share of images the detector was trained on, as far as it remembers.

        Above `MOST_LEARNED`, they say little of new images.

        Parameters
        ----------
        source
            Images of the encoder's size.

        """
        if source.fingerprint == self.embedder.trained.data_fingerprint:
            return 1.0
        return self.references.share_of(source)

    def explain(self, images: Images, neighbours: int = 3) -> list[Explanation]:
        """Return for each image its distance per view and class, and similar training images.

        The verdict is that of all views, also where the detector needs fewer by itself.

        Parameters
        ----------
        images
            What a call of the detector takes.
        neighbours
            How many similar training images to find for each.

        """
        measured = self._measure(images)
        nearest = self.references.nearest(measured.embeddings, neighbours)
        return [
            Explanation(verdict, measured.distances[:, image], nearest[image])
            for image, verdict in enumerate(self._verdicts(measured))
        ]

    def score(
        self,
        source: Source,
        *,
        batch_size: int | None = None,
        neighbours: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[ScoredImage]:
        """Return the verdicts on images of any number, in order, as they are asked for.

        Images are read and resized on the way; one that cannot be read comes with its reason.

        Parameters
        ----------
        source
            What `oddone.load` takes, a folder or file of images, or a list of these, of PIL images
            and of arrays of [height, width, 3]; or a generator of these, which is asked for them as
            they are needed. What is no file is called "image 3" by its place in the list.
        batch_size
            How many images are scored at once; by default a good number.
        neighbours
            How many similar training images to find for each.
        progress
            Called with how many images are done.

        """

        def decide(images: ImageBatch) -> list[DecidedImage]:
            decided = self._decide(images)
            nearest = self.references.nearest(decided.embeddings, neighbours)
            return list(map(DecidedImage, decided.verdicts, nearest))

        batches = process_batches(
            decide,
            source,
            size=self.image_size,
            batch_size=self.batch_size if batch_size is None else batch_size,
            progress=progress,
        )
        return scored_images(batches, self.classes)

    def _warn_unless_new(self, source: ImageSet) -> None:
        learned = self.share_learned(source)
        if learned > MOST_LEARNED:
            warnings.warn(
                f"{learned:.0%} of these {len(source):,} images are some that the detector was "
                f"trained on, whose scores are too low to say what is normal; take new ones",
                DataWarning,
                stacklevel=3,
            )

    def _verdicts(self, measured: _Measured) -> Verdicts:
        scores = sum_of_rules(measured.rule_scores, self.rules)
        return self._to_verdicts(scores, measured.probabilities)

    def _to_verdicts(
        self, scores: Float[Tensor, " images"], probabilities: Float[Tensor, "images classes"]
    ) -> Verdicts:
        labels, calibration = probabilities.argmax(dim=1), self.calibration
        return Verdicts(
            scores,
            labels,
            anomalous=None if calibration is None else calibration.anomalous(scores, labels),
            p_values=None if calibration is None else calibration.p_values(scores, labels),
            probabilities=probabilities,
        )

    def _decide(self, images: Images) -> _Decided:
        """Return the verdicts by as many views as they need."""
        if not self.stages:
            measured = self._measure(images)
            return _Decided(self._verdicts(measured), measured.embeddings)
        batch = self._batch(images)
        passes = batch.split(self.embedder.images_per_staged_pass(len(batch)))
        parts = map_in_threads(self._measure_as_needed, passes, self.embedder.device)
        scores, probabilities, embeddings = (torch.cat(each) for each in zip(*parts, strict=True))
        return _Decided(self._to_verdicts(scores, probabilities), embeddings)

    @torch.no_grad()
    def _measure_as_needed(self, images: Pixels) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities and embeddings, by as many views as each image needs."""
        thresholds = torch.tensor(self.thresholds, dtype=torch.float64)
        scores = torch.empty(len(images))
        probabilities = torch.empty(len(images), len(self.classes))
        embeddings: list[Tensor] = []
        undecided, views = torch.arange(len(images)), None
        for stage in all_stages(self.stages, self.embedder.views):
            views = self._measure_views(images[undecided], stage.views, views)
            embeddings.append(views.embeddings)
            likely = views.probabilities(self.fuse).cpu()
            expected = stage.expected(PartialVerdicts.of(self._sum_of_rules(views), likely))
            scores[undecided], probabilities[undecided] = expected.scores.float(), likely
            still_open = (~stage.decided(expected, thresholds)).nonzero()[:, 0]
            undecided, views = undecided[still_open], views.of_images(still_open)
            if len(undecided) == 0:
                break
        return scores, probabilities, embeddings[0]

    def _partial_verdicts(
        self, images: ImageBatch, added: Sequence[tuple[int, ...]]
    ) -> list[PartialVerdicts]:
        """Return what is thought of images after these views each, and at last after all."""
        stages = [ViewStage(views, 1.0, 0.0, 0.0, 0.0) for views in added]

        @torch.no_grad()
        def measure_in_stages(batch: Pixels) -> list[PartialVerdicts]:
            partial, views = [], None
            for stage in all_stages(stages, self.embedder.views):
                views = self._measure_views(batch, stage.views, views)
                partial.append(
                    PartialVerdicts.of(self._sum_of_rules(views), views.probabilities(self.fuse))
                )
            return partial

        passes = images.split(self.embedder.images_per_pass)
        parts = map_in_threads(measure_in_stages, passes, self.embedder.device)
        return [PartialVerdicts.concatenate(stage) for stage in zip(*parts, strict=True)]

    def _measure(self, images: Images) -> _Measured:
        """Return what all views of any number of images say."""
        passes = self._batch(images).split(self.embedder.images_per_pass)
        parts = map_in_threads(self._measure_batch, passes, self.embedder.device)
        return _Measured(
            _joined([part.rule_scores for part in parts]),
            torch.cat([part.distances for part in parts], dim=1).cpu(),
            torch.cat([part.probabilities for part in parts]).cpu(),
            torch.cat([part.embeddings for part in parts]),
        )

    def _batch(self, images: Images) -> Pixels:
        batch = to_batch(images, self.image_size)
        self.embedder.check(batch)
        return batch

    @torch.no_grad()
    def _measure_batch(self, images: Pixels) -> _Measured:
        views = self._measure_views(images, range(len(self.embedder.views)))
        return _Measured(
            self._rule_scores(views),
            views.distances,
            views.probabilities(self.fuse),
            views.embeddings,
        )

    def _measure_views(
        self, images: Pixels, numbers: Sequence[int], seen: MeasuredViews | None = None
    ) -> MeasuredViews:
        """Return what is measured of the views of these numbers, after those already seen."""
        embedded, poses = self.embedder(images, numbers), self.embedder.poses[list(numbers)]
        compared = embedded.in_space(self.space)
        distances = view_distances(self.gaussians, compared, poses)
        logits = None
        if self.classifier is not None:
            logits = view_logits(self.classifier, embedded, poses)
        rules = {rule.rule for rule in self.rules}
        upright = compared[poses == 0] if "mean_embedding" in rules else None
        first, neighbours = embedded.embeddings[0], None
        if seen is None and "neighbours" in rules:
            neighbours = neighbour_scores(self.references.embeddings, first)
        measured = MeasuredViews(distances, logits, first, neighbours, upright)
        return measured if seen is None else seen.with_views(measured)

    def _rule_scores(self, views: MeasuredViews) -> dict[Rule, Float[Tensor, " images"]]:
        return views.rule_scores(self.rules, self.fuse, self._measure_upright)

    def _measure_upright(
        self, embeddings: Float[Tensor, "images dim"]
    ) -> Float[Tensor, "images classes"]:
        return view_distances(self.gaussians, embeddings[None], torch.zeros(1, dtype=torch.long))[0]

    def _sum_of_rules(self, views: MeasuredViews) -> Float[Tensor, " images"]:
        return sum_of_rules(self._rule_scores(views), self.rules)


def _fitted(
    embedder: ViewEmbedder,
    source: ImageSet,
    indices: Int[np.ndarray, " some"],
    settings: DetectorSettings,
    progress: Progress | None,
) -> Detector:
    """Return the detector that is learned from the images of these indices."""
    labels, with_probe = source.labels[indices], settings.classifier == "linear"
    # Only the probe is fitted on mirrored and moved images too.
    views = settings.views if with_probe else settings.views.without_changes()
    shown = replace(embedder, views=views)

    def embed(images: ImageBatch) -> dict[str, PosedEmbeddings]:
        embedded = shown.embed(images)
        return {
            "gaussians": PosedEmbeddings.unmirrored(embedded.in_space(settings.space), views),
            "probe": PosedEmbeddings(embedded.features, views.poses),
            "references": PosedEmbeddings(embedded.embeddings[:1], one_view.poses),
        }

    referred, probed = (
        choose_evenly(labels, most, generator=stream(0, "references"))
        for most in (MOST_REFERENCES, MOST_PROBED)
    )
    trained = embedder.trained
    statistics = fit_statistics(
        embed,
        trained,
        source,
        indices,
        moments_of=["gaussians"],
        samples_of={"references": referred, **({"probe": probed} if with_probe else {})},
        progress=progress,
    )
    gaussians = Gaussians.fit(
        statistics.moments["gaussians"],
        settings.shrinkage,
        n_poses=views.n_poses,
        tied=settings.tied,
        names=group_names(views.n_poses, trained.classes),
    )
    classifier: LinearProbe | NetworkClassifier | None = None
    if settings.classifier == "network":
        classifier = NetworkClassifier()
    elif with_probe:
        probed_labels = torch.from_numpy(labels[probed])
        features = statistics.samples["probe"]
        probe = LinearProbe.fit(features, views, probed_labels, len(trained.classes))
        classifier = probe.to(embedder.device)
    return Detector(
        embedder,
        settings.space,
        gaussians.to(embedder.device, torch.float32),
        classifier,
        settings.fuse,
        References.of(statistics.samples["references"][0], source, indices[referred]),
        settings.rules,
    )


def _joined(parts: Sequence[Mapping[Rule, Tensor]]) -> dict[Rule, Float[Tensor, " images"]]:
    return {rule: torch.cat([part[rule] for part in parts]) for rule in parts[0]}


def _loaded(source: ImageSet | str, image_size: int) -> ImageSet:
    return load(source, size=image_size) if isinstance(source, str) else source
