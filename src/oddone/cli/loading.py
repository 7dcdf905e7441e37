"""Load what a command is given by name: images or a detector."""

from pathlib import Path

from oddone.cli.terminal import progress_with_warnings, say_about_files
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.detector.detector import MOST_LEARNED
from oddone.device import choose_device
from oddone.errors import DataError


def load_images(source: str, size: int | None, *, strict: bool = False) -> ImageSet:
    """Return the images of a source, with a progress bar; say which files are not used."""
    with progress_with_warnings() as progress:
        images = load(source, size=size, strict=strict, progress=progress)
    say_about_files(images)
    return images


def load_new_images(source: str, detector: Detector) -> ImageSet:
    """Return images to set a threshold by; those that the detector has learned are refused."""
    images = load_images(source, detector.image_size)
    learned = detector.share_learned(images)
    if learned > MOST_LEARNED:
        raise DataError(
            f"{learned:.0%} of the {len(images):,} images of {source} are some that the detector "
            f"was trained on, and would set the threshold too low; calibrate with new ones"
        )
    return images


def open_detector(path: Path, sha256: str | None = None) -> Detector:
    """Return the detector in a file, or in the directory of a finished run, on the best device.

    With `sha256`, a file that has another SHA-256 is refused.
    """
    return Detector.load(path, sha256=sha256).to(choose_device())
