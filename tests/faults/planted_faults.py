"""Faults to plant into oddone, to show that the harness finds such. Most were there once."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import oddone.data.decode as decoding


def decode_whatever_pillow_raises() -> None:
    """Let only some of what decoders raise be the reason of a picture."""

    @contextmanager
    def damage_explained() -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, SyntaxError) as error:
            raise decoding.BrokenImageError(str(error)) from error

    decoding.damage_explained = damage_explained


def decode_any_number_of_scans() -> None:
    decoding.MOST_SCANNED_PIXELS = 2**62


def decode_with_a_crash() -> None:
    """End the process at a picture of one pixel, as a fault in a C library does."""
    resize = decoding.resize_picture

    def crash(picture: Any, size: int) -> Any:
        if picture.size == (1, 1):
            os.kill(os.getpid(), signal.SIGSEGV)
        return resize(picture, size)

    decoding.resize_picture = crash


def decode_with_a_wait() -> None:
    """Wait at a picture of one pixel, for longer than the clock allows; that is made short here."""
    vars(sys.modules["__main__"])["MOST_WAIT"] = 1.0
    resize = decoding.resize_picture

    def wait(picture: Any, size: int) -> Any:
        if picture.size == (1, 1):
            time.sleep(60)
        return resize(picture, size)

    decoding.resize_picture = wait


def decode_in_gigabytes() -> None:
    resize = decoding.resize_picture

    def waste(picture: Any, size: int) -> Any:
        if picture.size == (1, 1):
            np.ones(1_100 * 2**20, np.uint8)
        return resize(picture, size)

    decoding.resize_picture = waste


def drop_a_row() -> None:
    """Leave a picture that cannot be read out of the table, if its name has an odd length."""
    _change_scored_images(
        lambda images: (
            image for image in images if image.reason is None or len(Path(image.path).name) % 2
        )
    )


def score_by_the_neighbour() -> None:
    """Give each image the verdict of the one before, where there is a broken picture between."""

    def shift(images: Iterator[Any]) -> Iterator[Any]:
        last = None
        for image in images:
            yield image if last is None or image.reason else image._replace(verdict=last)
            last = image.verdict

    _change_scored_images(shift)


def _change_scored_images(change: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
    from oddone.detector import detector  # noqa: PLC0415

    scored_images = detector.scored_images
    detector.scored_images = lambda *batches: change(scored_images(*batches))


def load_without_digest() -> None:
    """Load a detector or an encoder whose contents do not match their digest."""
    from oddone.tensor_file import TensorFile  # noqa: PLC0415

    TensorFile.check_digest = lambda _: None


def load_numbers_that_are_none() -> None:
    """Load a detector whose tensors are no numbers, and call what has no score normal."""
    from oddone.detector.calibration import Calibration  # noqa: PLC0415
    from oddone.tensor_file import TensorFile  # noqa: PLC0415

    tensor = TensorFile.tensor

    def unchecked(self: Any, name: str, *kind: Any) -> Any:
        return self.tensors[name] if name in self.tensors else tensor(self, name, *kind)

    TensorFile.tensor = unchecked
    Calibration.anomalous = lambda self, scores, _: scores > self.threshold


def unpickle_cifar() -> None:
    """Read CIFAR's files by an unpickler, which runs what they say."""
    import pickle  # noqa: PLC0415

    from oddone.data import cifar  # noqa: PLC0415

    cifar.read_pickled_dict = lambda content, _: pickle.loads(content)  # noqa: S301
