"""`oddone calibrate`: set a detector's threshold with normal images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from oddone.cli.loading import load_new_images, open_detector
from oddone.cli.out_file import check_out_file
from oddone.cli.terminal import describe_threshold, progress_with_warnings, say
from oddone.errors import SettingsError
from oddone.files import DETECTOR_NAME, file_or_in_run
from oddone.service.recalibration import calibrate_by_feedback

if TYPE_CHECKING:
    from oddone.detector import Detector

app = App(name="calibrate")


@app.default
def calibrate(
    detector: Path,
    source: str | None = None,
    /,
    *,
    false_alarms: float = 0.05,
    per_class: Annotated[bool, Parameter(negative=())] = False,
    adaptive: Annotated[bool, Parameter(negative=())] = False,
    from_service: Path | None = None,
    out: Path | None = None,
    sha256: str | None = None,
) -> None:
    """Set the threshold above which images are anomalous, with images that are normal and new.

    Examples: `oddone calibrate run fashion:known#test --false-alarms 0.01`,
    `oddone calibrate run photos/ --per-class`, `oddone calibrate run photos/ --adaptive`,
    `oddone calibrate run --from-service feedback.sqlite`.

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    source
        Normal images that were not trained on, as `oddone data list` names them. Labels do not
        matter.
    false_alarms
        The share of normal images that may be called anomalous.
    per_class
        Set a threshold for each predicted class, where it has enough of the images to promise that
        share: 19 for 0.05. Then false alarms are as rare in each of these classes.
    adaptive
        Judge new images by only as many views as their verdict needs, which is faster. It takes 399
        images at least to learn when to stop; without this, all views are looked at again.
    from_service
        Instead of a source, the file of `oddone serve --feedback`: images that users call normal
        are added to those that the detector was calibrated with.
    out
        The file for the calibrated detector; it replaces the old one unless set.
    sha256
        The SHA-256 that the detector's file must have before, as `sha256sum` prints it.
    """
    if out is not None:
        check_out_file(out)
    before = open_detector(detector, sha256)
    if from_service is None:
        after = _by_images(before, source, false_alarms, per_class=per_class, adaptive=adaptive)
    elif source is None and not adaptive:
        with progress_with_warnings():
            after = calibrate_by_feedback(
                before, from_service, false_alarms=false_alarms, per_class=per_class
            )
    else:
        raise SettingsError(
            "--from-service goes with neither a source nor --adaptive; leave it out"
        )
    file = file_or_in_run(detector, DETECTOR_NAME) if out is None else out
    after.save(file)
    say(f"the detector is {file}; {describe_threshold(after)}{_describe_stages(after)}")


def _by_images(
    before: "Detector",
    source: str | None,
    false_alarms: float,
    *,
    per_class: bool,
    adaptive: bool,
) -> "Detector":
    if source is None:
        raise SettingsError(
            "say what to calibrate with: oddone calibrate DETECTOR SOURCE, such as a folder, or "
            "--from-service FILE"
        )
    images = load_new_images(source, before)
    with progress_with_warnings() as progress:
        return before.calibrate(
            images,
            false_alarms=false_alarms,
            per_class=per_class,
            adaptive=adaptive,
            progress=progress,
        )


def _describe_stages(detector: "Detector") -> str:
    """Return in words how many views are looked at, where that depends on the image."""
    if not detector.stages:
        return ""
    fewest, views = len(detector.stages[0].views), len(detector.embedder.views)
    return f"; new images are scored by {fewest} to {views} views, as needed"
