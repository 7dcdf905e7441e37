"""Load what a command is given by name: images, a detector, the encoder of a run."""

from pathlib import Path
from typing import Literal

from oddone.cli.terminal import progress_bar, say_about_files
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.device import choose_device
from oddone.errors import ArtifactError
from oddone.training import RunDirectory


def load_images(source: str, size: int | None, *, strict: bool = False) -> ImageSet:
    """Return the images of a source, with a progress bar; say which files are not used."""
    with progress_bar() as progress:
        images = load(source, size=size, strict=strict, progress=progress)
    say_about_files(images)
    return images


def open_detector(path: Path) -> Detector:
    """Return the detector in a file, or in the directory of a finished run, on the best device."""
    return Detector.load(find_file("detector", path)).to(choose_device())


def find_file(what: Literal["detector", "encoder"], path: Path) -> Path:
    """Return the path of a detector or encoder file, which may be given by its run directory."""
    if not path.is_dir():
        return path
    run = RunDirectory(path)
    file = run.detector_path if what == "detector" else run.encoder_path
    if not file.is_file():
        raise ArtifactError(
            f"{path} holds no {file.name}; name the file, or the directory of a run that oddone "
            f"train has finished"
        )
    return file
