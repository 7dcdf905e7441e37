"""`oddone calibrate`: set a detector's threshold with normal images."""

from pathlib import Path

from cyclopts import App

from oddone.cli.loading import load_images, open_detector
from oddone.cli.out_file import check_out_file
from oddone.cli.terminal import describe_threshold, progress_with_warnings, say
from oddone.errors import DataError
from oddone.files import DETECTOR_NAME, file_or_in_run

app = App(name="calibrate")


@app.default
def calibrate(
    detector: Path,
    source: str,
    /,
    *,
    false_alarms: float = 0.05,
    out: Path | None = None,
) -> None:
    """Set the threshold above which images are anomalous, with images that are normal and new.

    Example: `oddone calibrate run fashion:known#test --false-alarms 0.01`

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    source
        Normal images that were not trained on, as `oddone data list` names them. Labels do not
        matter.
    false_alarms
        The share of normal images that may be called anomalous.
    out
        The file for the calibrated detector; it replaces the old one unless set.
    """
    if out is not None:
        check_out_file(out)
    before = open_detector(detector)
    images = load_images(source, before.image_size)
    if images.fingerprint == before.embedder.trained.data_fingerprint:
        raise DataError(
            f"the {len(images):,} images of {source} are those that the detector was trained on, "
            f"and would set the threshold too low; calibrate with new ones"
        )
    with progress_with_warnings() as progress:
        after = before.calibrate(images, false_alarms=false_alarms, progress=progress)
    file = file_or_in_run(detector, DETECTOR_NAME) if out is None else out
    after.save(file)
    say(f"the detector is {file}; {describe_threshold(after)}")
