"""Exports whose temporary files have no room; `.pt2` files of strangers, which are never opened."""

import io
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from commands import check_is_one_line
from launcher import launcher, reason_to_skip
from trials import Rounds, Trials

from oddone.cli import main
from runs import tiny_source
from small_detector import fitted

pytest.importorskip("onnx", reason="oddone[onnx] is not installed")
FULL_FROM = 2
"""Which change of a temporary file is the first that fails: the graph is open, and has no byte."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a detector is, normal images, and a picture."""
    folder = tmp_path_factory.mktemp("export")
    fitted().save(folder / "d.oddone")
    source = tiny_source(24, seed=3)
    np.savez(folder / "normal.npz", images=source.images.transpose(0, 2, 3, 1))
    return folder


@pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip()))
def test_int8_tells_that_its_temporary_files_have_no_room_and_leaves_nothing(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounds: Rounds,
    trials: Trials,
) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "d.onnx"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    words = f"export {folder}/d.oddone --out {out} --int8 --calibration {folder}/normal.npz".split()
    with launcher(tmp_path) as started:
        for number in range(FULL_FROM, FULL_FROM + rounds(1, 20)):
            with trials.trial("disk, ENOSPC: temporary files of export --int8", number):
                finished = started.run(words, temporary, fault="ENOSPC", number=number)
                if finished.code == 0:  # all temporary files were there by then
                    out.unlink()
                    continue
                check_is_one_line(finished, temporary)
                assert "No space left on device" in finished.complained
                assert not out.exists()
                assert list(temporary.iterdir()) == []


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
