"""Changes of oddone for a test: a table that takes seconds, and faults that must be found."""

import io
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import oddone.cli.bench
import oddone.cli.export
import oddone.cli.score_parts
from oddone.files import write_atomic
from oddone.tensor_file import TensorFile
from runs import scale_of, tiny_settings
from tiny_onnx import tiny_onnx


def toy_bench() -> None:
    """Let the scale cpu of `oddone bench` train for two steps, not for minutes."""
    scale = scale_of(tiny_settings(steps=2), "cpu")
    oddone.cli.bench.cpu_scale = lambda _: scale


def small_parts() -> None:
    """Let a part of `oddone score` have a few images, so that there are several."""
    oddone.cli.score_parts._images_per_part = lambda _: 20


def quick_export() -> None:
    """Let `oddone export` write a graph that need not be traced: what can fail is the file."""
    oddone.cli.export.onnx_content = lambda *_, **__: tiny_onnx()
    oddone.cli.export.int8_content = lambda *_, **__: tiny_onnx()
    oddone.cli.export.pt2_content = lambda *_, **__: tiny_zip()


def tiny_zip() -> bytes:
    """Return an archive in the place of a traced program, which is one too."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("detector/extra/oddone.json"), "{}" * 1000)
    return file.getvalue()


def write_in_place() -> None:
    """Write files under their own names, so that they are incomplete for a while."""
    _replace(write_atomic, Path.write_bytes)


def write_without_flush() -> None:
    """Rename files that the disk need not have yet."""

    def write(path: Path, content: bytes) -> None:
        part = path.with_name(".oddone-0123456789abcdef.part")
        part.write_bytes(content)
        part.replace(path)

    _replace(write_atomic, write)


def check_no_digest() -> None:
    """Trust what is in a file."""
    TensorFile.check_digest = lambda _: None  # type: ignore[method-assign]


def hide_errors_of_the_disk() -> None:
    """Go on as if a file had been written."""

    def write(path: Path, content: bytes) -> None:
        with suppress(OSError):
            write_atomic(path, content)

    _replace(write_atomic, write)


def raise_through() -> None:
    """Let errors of the disk end in a traceback."""

    def write(path: Path, content: bytes) -> None:
        try:
            write_atomic(path, content)
        except OSError as error:
            raise RuntimeError(path) from error

    _replace(write_atomic, write)


def _replace(function: Callable[..., object], other: Callable[..., object]) -> None:
    """Put another function in the place of one, wherever it has been imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("oddone") and vars(module).get(function.__name__) is function:
            setattr(module, function.__name__, other)
