"""What most programs need, in a line each: `oddone.train` from images to a calibrated detector."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.device import choose_device
from oddone.encoders import load_network
from oddone.errors import DataError, SettingsError
from oddone.presets import cpu
from oddone.progress import Progress
from oddone.training import (
    RunDirectory,
    StepReport,
    TrainSettings,
    split_held_out,
    train_network,
)
from oddone.training.run_directory import run_provenance


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
        How to train; by default `oddone.presets.cpu()`, ten minutes. `dataclasses.replace` makes
        variants.
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
        Called with how many images are done, while the detector is fitted and calibrated.

    Examples
    --------
    >>> import oddone
    >>> from oddone.presets import smoke
    >>> detector = oddone.train("fashion:known", smoke())  # seconds; it learns little
    >>> len(detector.classes)
    8

    """
    settings = cpu() if settings is None else settings
    if isinstance(source, str):
        source = load(source, size=settings.model.image_size)
    if out is not None:
        run = _open_run(Path(out), source, settings)
        with run.removed_unless_begun():
            return _train_in(run, source, encoder, false_alarms, watch, progress)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", settings, _provenance(source, settings))
        return _train_in(run, source, encoder, false_alarms, watch, progress)


def fit_run(
    run: RunDirectory,
    source: ImageSet,
    *,
    encoder: nn.Module | None = None,
    false_alarms: float = 0.05,
    progress: Progress | None = None,
) -> Detector:
    """Return the detector of a finished run, fitted to the images that the run was trained on.

    It is calibrated on those that were held out. Where none were, it has no threshold.
    """
    if not run.finished:
        raise SettingsError(f"{run.path} is not finished; go on with oddone train --resume")
    settings = run.settings
    trained = load_network(run.encoder_path, encoder=encoder).to(choose_device(settings.device))
    split = split_held_out(source, settings)
    detector = Detector.fit(trained, source, indices=split.training, progress=progress)
    detector = replace(detector, provenance=run.provenance)
    if len(split.held_out) == 0:
        return detector
    return detector.calibrate(
        source, false_alarms=false_alarms, indices=split.held_out, progress=progress
    )


def _train_in(
    run: RunDirectory,
    source: ImageSet,
    encoder: nn.Module | None,
    false_alarms: float,
    watch: Callable[[StepReport], None],
    progress: Progress | None,
) -> Detector:
    if not run.finished:
        train_network(source, run.settings, run, encoder=encoder, watch=watch)
    detector = fit_run(run, source, encoder=encoder, false_alarms=false_alarms, progress=progress)
    detector.save(run.detector_path)
    return detector


def _open_run(path: Path, source: ImageSet, settings: TrainSettings) -> RunDirectory:
    """Return the directory of a new run, or of one that was begun with the same settings."""
    if not (path / "settings.toml").is_file():
        return RunDirectory.create(path, settings, _provenance(source, settings))
    run = RunDirectory.open(path)
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


def _provenance(source: ImageSet, settings: TrainSettings) -> Mapping[str, Any]:
    return {
        **run_provenance(settings),
        "data": {"images": len(source), "fingerprint": source.fingerprint},
    }
