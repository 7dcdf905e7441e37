"""`oddone explain`: why one image got its verdict, in words and as a picture."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cyclopts import App
from jaxtyping import UInt8

from oddone.cli.loading import load_images, open_detector
from oddone.cli.terminal import printable, say
from oddone.data.decode import BrokenImageError, decode, without_warnings
from oddone.detector import Detector, Explanation
from oddone.errors import DataError, SettingsError
from oddone.report import check_figure_path, draw_explanation, save_figure
from oddone.wording import describe_neighbour, describe_verdict

app = App(name="explain")


class ChosenImage(NamedTuple):
    """The image to explain, and where it is from."""

    pixels: UInt8[np.ndarray, "3 size size"]
    path: str


@app.default
def explain(
    detector: Path,
    image: str,
    /,
    *,
    out: Path,
    number: int | None = None,
    sha256: str | None = None,
) -> None:
    """Draw a picture of why an image got its verdict, and say it in words.

    Examples: `oddone explain run photo.jpg --out why.png`, `oddone explain run
    fashion:unseen#test --number 17 --out why.svg`.

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    image
        A picture file; or, with --number, images as `oddone data list` names them.
    out
        The picture to write: .png, .svg or .pdf. A file of that name is overwritten.
    number
        Which image of a source such as `fashion:unseen#test`, counted from 0.
    sha256
        The SHA-256 that the detector's file must have, as `sha256sum` prints it.
    """
    check_figure_path(out)
    if number is None and out.resolve() == Path(image).resolve():
        raise SettingsError(f"--out {out} would overwrite the image itself; choose another name")
    opened = open_detector(detector, sha256)
    size = opened.image_size
    chosen = (
        _read_picture(image, size) if number is None else _read_from_source(image, number, size)
    )
    explanation = opened.explain(chosen.pixels[None])[0]
    score = explanation.verdict.score
    if not math.isfinite(score):
        raise DataError(f"the score of {image} is {score}, which is no number; fit {detector} anew")
    figure = draw_explanation(opened, chosen.pixels, explanation, title=chosen.path)
    save_figure(figure, out)
    _say_verdict(opened, explanation)
    say(f"The picture is {out}")


def _read_picture(path: str, size: int) -> ChosenImage:
    try:
        with without_warnings():
            return ChosenImage(decode(Path(path), size), path)
    except BrokenImageError as error:
        raise DataError(
            f"{path} cannot be read as a picture: {error}; name one picture file, or choose one "
            f"of several images by --number"
        ) from error


def _read_from_source(source: str, number: int, size: int) -> ChosenImage:
    images = load_images(source, size)
    if not 0 <= number < len(images):
        raise DataError(
            f"--number {number}: {source} has {len(images):,} images; choose 0 to {len(images) - 1}"
        )
    return ChosenImage(np.array(images.images[number]), images.paths[number])


def _say_verdict(detector: Detector, explanation: Explanation) -> None:
    words = describe_verdict(detector, explanation.verdict)
    p_value = explanation.verdict.p_value
    shown = "" if p_value is None else f" (p-value {p_value:.2g})"
    say(f"{words.beginning} {words.headline}")
    say(f"{words.rarity}{shown}. {words.reason}")
    say("The training images that look most like it, by cosine distance:")
    for near in explanation.neighbours:
        distance, name = describe_neighbour(near.similarity), detector.classes[near.label]
        say(f"  {printable(f'{distance}, {name}: {near.path}')}")
