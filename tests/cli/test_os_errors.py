"""What the operating system refuses is one line that names the file, in every command."""

import errno
import os
from collections.abc import Callable
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
