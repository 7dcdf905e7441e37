"""From a finished run to its detector, without a further question."""

from dataclasses import replace

from oddone.data import ImageSet
from oddone.data.decode import Progress
from oddone.detector.detector import Detector
from oddone.detector.view_encoder import Space
from oddone.errors import SettingsError
from oddone.training import RunDirectory, Training, load_network, split
from oddone.training.loop import choose_device
from oddone.transforms import MakeViews, eight_turns, one_view


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
    trained.network.to(choose_device(trained.settings))
    parts = split(source, trained.settings)
    detector = Detector.fit(
        trained,
        source,
        only=parts.training,
        views=views_for(trained.settings),
        space=space_for(trained.settings),
        progress=progress,
    )
    detector = replace(detector, provenance=run.provenance)
    if len(parts.held_out) == 0:
        return detector
    return detector.calibrate(
        source, false_alarms=false_alarms, only=parts.held_out, progress=progress
    )


def views_for(settings: Training) -> MakeViews:
    """Return the views that an encoder so trained can tell apart."""
    return eight_turns if settings.rotations == "task" else one_view


def space_for(settings: Training) -> Space:
    """Return where an encoder so trained tells classes apart: a classifier reads the features."""
    return "features" if settings.has_classifier else "head"
