"""From a finished run to its detector, without a further question."""

from dataclasses import replace

from oddone.data import ImageSet
from oddone.detector.detector import Detector
from oddone.detector.view_embedder import Space
from oddone.device import choose_device
from oddone.errors import SettingsError
from oddone.progress import Progress
from oddone.training import RunDirectory, TrainSettings, load_network, split
from oddone.transforms import MakeViews, one_view, rotations_and_mirrors


def detector_of_run(
    run: RunDirectory,
    source: ImageSet,
    *,
    false_alarms: float = 0.05,
    progress: Progress | None = None,
) -> Detector:
    """Return the detector of a run on the images it began with.

    It is fitted on those that were trained on, and calibrated on those that were held out; where
    none were, it is left without a threshold.
    """
    if not run.encoder.is_file():
        raise SettingsError(f"{run.path} is not finished; go on with oddone train --resume")
    trained = load_network(run.encoder)
    trained.network.to(choose_device(trained.settings.device))
    parts = split(source, trained.settings)
    detector = Detector.fit(
        trained,
        source,
        indices=parts.training,
        views=views_for(trained.settings),
        space=space_for(trained.settings),
        progress=progress,
    )
    detector = replace(detector, provenance=run.provenance)
    if len(parts.held_out) == 0:
        return detector
    return detector.calibrate(
        source, false_alarms=false_alarms, indices=parts.held_out, progress=progress
    )


def views_for(settings: TrainSettings) -> MakeViews:
    """Return the views that an encoder so trained can tell apart."""
    return rotations_and_mirrors if settings.rotations == "task" else one_view


def space_for(settings: TrainSettings) -> Space:
    """Return where an encoder so trained tells classes apart: a classifier reads the features."""
    return "features" if settings.has_classifier else "head"
