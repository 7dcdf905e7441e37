"""Exports whose temporary files have no room; `.pt2` files of strangers, which are never opened."""

import io
import pickle
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from trials import Trials

from oddone.cli import main
from oddone.export.int8 import quantise
from oddone.export.onnx_model import OnnxModel
from runs import tiny_source
from small_detector import fitted
from tiny_onnx import tiny_onnx

FEW_BYTES = 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a detector and some images are."""
    folder = tmp_path_factory.mktemp("export")
    fitted().save(folder / "d.oddone")
    source = tiny_source(24, seed=3)
    np.savez(folder / "normal.npz", images=source.images.transpose(0, 2, 3, 1))
    return folder


@contextmanager
def few_bytes_a_file() -> Iterator[None]:
    """Let no file grow beyond a few bytes, as on a disk that is nearly full."""
    resource = pytest.importorskip("resource", reason="needs limits of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FEW_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_temporary_files_of_int8_that_have_no_room_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: Trials
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph = OnnxModel(onnx.load_from_string(tiny_onnx()), ())
    with trials.trial("disk, few bytes: temporary files of export --int8"):
        with few_bytes_a_file(), pytest.raises(OSError, match="File too large"):
            quantise(graph, tiny_source(images=3))
        assert list(tmp_path.iterdir()) == []


class Planted:
    """What runs when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def forged_program(planted: Path) -> bytes:
    """Return an archive like a `.pt2` file's, every part of which is a pickle that runs code."""
    file, content = io.BytesIO(), pickle.dumps(Planted(planted))
    parts = ("data.pkl", "data/weights/weight_0", "data/constants/tensor_0", "models/model.json")
    with zipfile.ZipFile(file, "w") as archive:
        for name in parts:
            archive.writestr(f"archive/{name}", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        "score FILE OTHER",
        "explain FILE OTHER",
        "evaluate FILE OTHER",
        "calibrate FILE OTHER",
        "report FILE --out OTHER.html",
        "export FILE --out OTHER.onnx",
        "serve FILE --port 48217",
        "train OTHER --start FILE",
        "fit FILE --out OTHER.oddone",
        "score OTHER FILE",
    ],
)
@pytest.mark.parametrize("ending", ["pt2", "oddone", "onnx"])
def test_no_command_unpickles_a_program_of_a_stranger(
    folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    ending: str,
) -> None:
    planted, forged = tmp_path / "planted", tmp_path / f"forged.{ending}"
    forged.write_bytes(forged_program(planted))
    other = folder / "d.oddone" if words.startswith("score OTHER") else folder / "normal.npz"
    filled = words.replace("FILE", str(forged)).replace("OTHER", str(other))
    monkeypatch.setattr(sys, "argv", ["oddone", *filled.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    complained = capfd.readouterr().err
    assert ended.value.code == 2, complained
    assert "Traceback" not in complained
    assert not planted.exists()


def test_the_forged_program_would_run_code(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(forged_program(tmp_path / "planted"))) as archive:
        pickle.loads(archive.read("archive/data.pkl"))  # noqa: S301
    assert (tmp_path / "planted").exists()
