"""Odd pictures through every path by which oddone reads them."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cases import Outcome, try_cases
from corpus_images import (
    heavy_pictures,
    hostile_pictures,
    mutated_pictures,
    progressive_jpeg,
    valid_pictures,
)
from PIL import Image
from trials import Rounds, Trials

from runs import tiny_source
from small_detector import fitted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX's limits")
PICTURE = "picture_readers.picture"
AT_ONCE = 2_000
"""Files that are on the disk at a time."""
CONTROLS = 12


def write(folder: Path, pictures: Iterable[tuple[str, bytes]]) -> Path:
    folder.mkdir(parents=True)
    for name, content in pictures:
        (folder / name).write_bytes(content)
    return folder


def write_controls(folder: Path) -> None:
    """Write pictures that nothing is wrong with, between the others by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(tiny_source(seed=5).images[:CONTROLS]):
        name = f"{'az'[number % 2]}-untouched-{number}.png"
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / name)


def test_a_picture_is_read_or_has_a_reason(tmp_path: Path, rounds: Rounds, trials: Trials) -> None:
    whole = write(tmp_path / "whole", [*valid_pictures().items(), *hostile_pictures().items()])
    outcomes = try_cases(PICTURE, whole, tmp_path / "journal")
    mutants = rounds(300, 10_000)
    for start in range(0, mutants, AT_ONCE):
        pictures = mutated_pictures(min(AT_ONCE, mutants - start), seed=start)
        folder = write(tmp_path / f"mutants-{start}", pictures)
        outcomes += try_cases(PICTURE, folder, tmp_path / f"journal-{start}")
        shutil.rmtree(folder)
    check_all(trials, "fuzz: pictures", outcomes)
    refused = {outcome.name for outcome in outcomes if outcome.refused is not None}
    assert not refused & valid_pictures().keys()
    assert 0.2 < len(refused) / len(outcomes) < 0.9, "the mutants are too tame, or too wild"


def test_a_picture_takes_neither_long_nor_much_memory(
    tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    long, scans = rounds(0, 1), {"scans.jpg": progressive_jpeg(4_000, 2_000)}
    folder = write(tmp_path / "heavy", (heavy_pictures() if long else scans).items())
    check_all(trials, "fuzz: heavy pictures", try_cases(PICTURE, folder, tmp_path / "journal"))
    if long:  # a planted fault that takes as long to be found as a case may take
        fault, scans_only = "decode_any_number_of_scans", write(tmp_path / "scans", scans.items())
        (outcome,) = try_cases(PICTURE, scans_only, tmp_path / "planted", fault)
        # A fast machine is through before the case is given up, and too late all the same.
        with pytest.raises(AssertionError, match=r"the process ended with|it took \d+\.\d s"):
            outcome.check()


def test_each_picture_has_a_row_and_changes_no_other(
    tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    pictures = valid_pictures() | hostile_pictures()
    mutants = dict(mutated_pictures(rounds(150, 3_000), seed=1))
    check_folders(trials, try_folders(tmp_path, pictures | mutants))


def check_all(trials: Trials, name: str, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        with trials.trial(name, outcome.name):
            outcome.check()


def try_folders(tmp_path: Path, pictures: dict[str, bytes], *faults: str) -> list[Outcome]:
    """Return what becomes of untouched pictures alone, among odd and among unreadable ones."""
    write(tmp_path / "cases" / "2-odd", pictures.items())
    unreadable = [(name, content[:20]) for name, content in list(pictures.items())[:200]]
    write(tmp_path / "cases" / "3-unreadable", unreadable)
    fitted().save(tmp_path / "detector.oddone")
    for folder in ("1-untouched", "2-odd", "3-unreadable"):
        write_controls(tmp_path / "cases" / folder)
    return try_cases("artifact_readers.folder", tmp_path / "cases", tmp_path / "journal", *faults)


def check_folders(trials: Trials, outcomes: list[Outcome]) -> None:
    """Check that each picture has a row, and that the untouched ones have the rows they had."""
    for outcome in outcomes:
        assert outcome.raised is None, outcome.raised
    untouched, odd, unreadable = (outcome.read for outcome in outcomes)
    alone = {Path(row["path"]).name: row for row in untouched["rows"]}
    assert len(alone) == CONTROLS
    # Where other images are in their batch, the last bit of a sum of products may be another.
    for result, most in ((untouched, 0.0), (odd, 1e-6), (unreadable, 0.0)):
        with trials.trial("fuzz: folder as a whole"):
            assert result["code"] == 0
            assert "Traceback" not in result["stderr"]
            assert len(result["stderr"].splitlines()) < 10
        check_rows(trials, result)
        for row in result["rows"]:
            before = alone.get(Path(row["path"]).name)
            if before is not None:
                with trials.trial("fuzz: verdict on an untouched picture", row["path"]):
                    assert row["score"] == pytest.approx(before["score"], rel=most, abs=0)
                    assert row["class_name"] == before["class_name"]
                    assert row["anomalous"] == before["anomalous"]


def check_rows(trials: Trials, result: dict[str, Any]) -> None:
    shown = Counter(row["path"] for row in result["rows"])
    listed = Counter([*result["loaded"], *result["broken"]])
    for path in sorted(Path(result["rows"][0]["path"]).parent.iterdir()):
        with trials.trial("fuzz: row of a picture", path.name):
            assert shown[str(path)] == 1
            assert listed[str(path)] == 1
    for row in result["rows"]:
        with trials.trial("fuzz: verdict or reason", row["path"]):
            assert (row["score"] is None) == (row["reason"] is not None)
            assert row["reason"] == result["broken"].get(row["path"])


def test_a_row_that_is_dropped_or_changed_is_found(tmp_path: Path) -> None:
    pictures = hostile_pictures()
    for fault in ("drop_a_row", "score_by_the_neighbour"):
        trials = Trials()
        check_folders(trials, try_folders(tmp_path / fault, pictures, fault))
        assert trials.failures, fault


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("decode_whatever_pillow_raises", "AssertionError"),
        ("decode_with_a_crash", "the process ended with -11"),
        ("decode_with_a_wait", "Timeout (0:00:01)"),
        ("decode_in_gigabytes", "MB"),
    ],
)
def test_a_decoder_without_its_checks_is_found(tmp_path: Path, fault: str, expected: str) -> None:
    odd = {name: hostile_pictures()[name] for name in ("no-palette.png", "one-pixel.png")}
    write(tmp_path / "odd", odd.items())
    trials = Trials()
    check_all(
        trials,
        "odd",
        try_cases(PICTURE, tmp_path / "odd", tmp_path / "journal", fault),
    )
    assert len(trials.failures) == 1
    assert expected in trials.failures[0]
