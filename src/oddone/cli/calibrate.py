"""`oddone calibrate`: set a detector's threshold by normal images."""

from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from oddone.cli.detectors import describe_threshold, file_of, open_detector
from oddone.cli.sources import load_watched
from oddone.cli.terminal import bar, say, show_warnings
from oddone.errors import DataError, SettingsError

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
    """Set the threshold above which images are anomalous, by images that are normal and new.

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
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise SettingsError(f"--out {out}: name a file in a folder that exists")
    before = open_detector(detector)
    images = load_watched(source, before.image_size)
    if images.fingerprint == before.embedder.trained.data_fingerprint:
        raise DataError(
            f"the {len(images):,} images of {source} are those that the detector was trained on, "
            f"and would set the threshold too low; calibrate with new ones"
        )
    with (
        show_warnings(Console(stderr=True)),
        bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress,
    ):
        after = before.calibrate(images, false_alarms=false_alarms, progress=progress)
    file = file_of("detector", detector) if out is None else out
    after.save(file)
    say(f"the detector is {file}; {describe_threshold(after)}")
