"""What the operating system refuses is one line that names the file, in every command."""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from oddone.bench import write_record
from oddone.errors import DataError, SettingsError
from oddone.training import RunDirectory
from records import made_up_record
from runs import tiny_settings, tiny_source

Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
# Nobody can write there, not even root, and that shows only when it is tried.
NOWHERE = "/proc"


@pytest.mark.parametrize(
    "words",
    [
        "score FILE PICTURES --out /proc/scores.csv",
        "score FILE PICTURES --out /proc/scores.parquet",
        "evaluate FILE PICTURES --out /proc/result.json",
        "evaluate FILE PICTURES --out /proc/result.csv",
        "calibrate FILE PICTURES --out /proc/other.oddone",
        "explain FILE PICTURES --number 0 --out /proc/why.png",
        "bench show RECORD --format csv --out /proc/tables.csv",
        "bench paper-sei --ind fashion --ood d=digits --limit 2 --minutes 0.01 --out /proc/bench",
        "demo --out /proc/demo",
        "train fashion --preset smoke --out /proc/run",
        "score FILE LONG",
        "score FILE PICTURES --out LONG.csv",
    ],
)
def test_it_is_one_line_that_names_the_file(
    run_oddone: Run, detector_file: Path, tmp_path: Path, words: str
) -> None:
    np.save(tmp_path / "pictures.npy", tiny_source(images=4).images)
    for word, value in (
        ("FILE", detector_file),
        ("RECORD", write_record(tmp_path, made_up_record())),
        ("PICTURES", f"arrays:{tmp_path / 'pictures.npy'}"),
        ("LONG", "/".join(["deep"] * 1000)),
    ):
        words = words.replace(word, str(value))
    code, _, complained = run_oddone(*words.split())
    last = complained.splitlines()[-1]
    assert code == 2
    assert "Traceback" not in complained
    assert complained.count("oddone: ") == 1
    assert last.startswith("oddone: ")
    assert "/proc" in last or "deep/deep" in last


@pytest.mark.parametrize("buffering", [1, -1], ids=["row", "end"])
def test_rows_that_cannot_be_printed_name_standard_output(
    run_oddone: Run, detector_file: Path, monkeypatch: pytest.MonkeyPatch, buffering: int
) -> None:
    full = Path("/dev/full").open("w", buffering)  # noqa: SIM115  (to close it fails, too)
    monkeypatch.setattr(sys, "stdout", full)
    code, _, complained = run_oddone("score", str(detector_file), "fashion:unseen#test")
    with suppress(OSError):
        full.close()
    assert code == 2
    assert complained.splitlines()[-1] == (
        "oddone: standard output: No space left on device; make room there, or choose another place"
    )


def test_too_little_memory_is_one_line(run_oddone: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((10**6, 1, 1, 3), np.uint8))
    code, _, complained = run_oddone("data", "info", str(tmp_path / "a.npy"), "--size", "9999")
    assert code == 2
    (line,) = complained.splitlines()
    assert line.startswith("oddone: there is not enough memory (Unable to allocate 273. TiB for")
    assert line.endswith("; use smaller images, or fewer at a time")


@pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")
def test_a_disk_that_fills_up_while_training_keeps_what_was_trained(
    run_oddone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = os.fsync
    run = tmp_path / "run"

    def full(descriptor: int) -> None:
        if (run / "checkpoints" / "000000002.safetensors").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    words = ["train", "fashion", "--preset", "smoke", "--checkpoint-seconds", "0", "--out"]
    code, _, complained = run_oddone(*words, str(run))
    assert code == 2
    last = complained.splitlines()[-1]
    assert last == (
        f"oddone: {run}/checkpoints/000000002.safetensors: No space left on device; make room there"
        f", or choose another place"
    )
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "000000001.safetensors",
        "000000002.safetensors",
    ]


def test_a_run_that_cannot_be_begun_on_a_full_disk_leaves_nothing(
    run_oddone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _content: bytes) -> None:  # what writes the lock
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    run = tmp_path / "new" / "run"
    code, _, complained = run_oddone("train", "fashion", "--preset", "smoke", "--out", str(run))
    assert (code, complained) == (
        2,
        f"oddone: {run} cannot be written: No space left on device; choose another --out\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays_when_no_run_can_be_begun_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "touch", full)  # not even an empty file can be made
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(SettingsError, match="cannot be written: No space left on device"):
            RunDirectory.create(tmp_path / name, tiny_settings(), {})
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_what_is_advised_suits_what_is_refused(
    run_oddone: Run, detector_file: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "pictures.npy", tiny_source(images=4).images)
    source = f"arrays:{tmp_path / 'pictures.npy'}"
    words = ["score", str(detector_file), source, "--copy-anomalous", f"{NOWHERE}/copies"]
    code, _, complained = run_oddone(*words)
    assert code == 2
    assert complained == (
        f"oddone: --copy-anomalous {NOWHERE}/copies: No such file or directory; choose another "
        f"file or folder\n"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("provenance.json", b""),
        ("provenance.json", b"[1]"),
        ("provenance.json", b"\xff\xfe{"),
        ("provenance.json", b"[" * 100_000),
        ("provenance.json", b'{"data": 3}'),
        ("provenance.json", b'{"data": {"source": 3}}'),
        ("provenance.json", b'{"data": {"source": "fashion"}}'),
        ("provenance.json", b'{"data": {"fingerprint": "x", "images": 1}, "outliers": {}}'),
        ("provenance.json", b'{"left_out": "lamp"}'),
        ("provenance.json", b'{"start": {}}'),
        ("provenance.json", b'{"extended": [3]}'),
        ("provenance.json", None),
        ("settings.toml", b"\xff"),
        ("settings.toml", b"model = 3"),
        ("settings.toml", b"steps = 2\nseed = 1.5"),
    ],
)
def test_a_damaged_run_is_one_line(
    run_oddone: Run, tmp_path: Path, name: str, content: bytes | None
) -> None:
    run = RunDirectory.create(tmp_path / "run", tiny_settings(), {})
    if content is None:
        (run.path / name).unlink()
    else:
        (run.path / name).write_bytes(content)
    code, _, complained = run_oddone("train", "--resume", str(run.path))
    assert code == 2
    assert len(complained.splitlines()) == 1
    assert str(run.path) in complained


def test_a_damaged_line_of_the_history_is_left_out(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", tiny_settings(), {})
    good = [{"step": step, "loss": 1.5} for step in (1, 2)]
    run.append_history(good[0])
    with (run.path / "history.jsonl").open("ab") as file:
        file.write(b'3\n{"loss": 2}\n{"step": "x", "loss": 1}\n\xff\xfe\n[[[\n' + b"[" * 10**5)
        file.write(b"\n")
    run.append_history(good[1])
    assert list(run.history()) == good
    run.forget_history_after(1)
    assert list(run.history()) == good[:1]


def test_debug_shows_the_traceback(run_oddone: Run) -> None:
    code, _, complained = run_oddone("demo", "--out", f"{NOWHERE}/demo", "--debug")
    assert code == 2
    assert "Traceback" in complained


def test_a_provenance_that_is_damaged_is_a_data_error(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", tiny_settings(), {})
    (run.path / "provenance.json").write_text("{")
    with pytest.raises(DataError, match=r"provenance.json is damaged \(.*\); begin the run anew"):
        _ = run.provenance
    with pytest.raises(SettingsError, match="no settings.toml; name one that is, or train"):
        RunDirectory.open(tmp_path)
