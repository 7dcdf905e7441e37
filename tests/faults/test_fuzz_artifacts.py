"""Damaged and forged files of every kind that oddone reads."""

import os
import pickle
import shutil
import sys
from pathlib import Path
from random import Random

import pytest
from cases import Outcome, try_cases
from corpus_artifacts import (
    CHECKED,
    FILE_NAMES,
    FORGED,
    damaged_files,
    forge,
    forge_tensor,
    write_artifacts,
)
from trials import Rounds, Trials

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX's limits")
ARTIFACT, FORGERY = "artifact_readers.artifact", "artifact_readers.forgery"
AT_ONCE = 400
"""Files that are on the disk at a time."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_artifacts(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def intact(paths: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what each artifact is read as before anything is done to it."""
    folder = tmp_path_factory.mktemp("intact")
    for kind, path in paths.items():
        add_case(folder / "cases", kind, 0, path.read_bytes(), paths)
    outcomes = try_cases(ARTIFACT, folder / "cases", folder / "journal")
    for outcome in outcomes:
        outcome.check()
        assert outcome.read is not None, outcome.refused
    return {kind_of(outcome): outcome.read for outcome in outcomes}


def add_case(folder: Path, kind: str, number: int, content: bytes, paths: dict[str, Path]) -> None:
    case = folder / f"{kind}-{number:05}"
    case.mkdir(parents=True)
    (case / FILE_NAMES[kind]).write_bytes(content)
    if kind == "cifarmeta":
        shutil.copy(paths["cifar"], case)


def kind_of(outcome: Outcome) -> str:
    return outcome.name.partition("-")[0]


def test_a_damaged_file_is_refused_or_what_it_was(
    paths: dict[str, Path], intact: dict[str, str], tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    number = rounds(264, 4_400)
    for start in range(0, number, AT_ONCE):
        folder = tmp_path / f"damaged-{start}"
        damaged = damaged_files(paths, min(AT_ONCE, number - start), seed=start)
        for count, (kind, content) in enumerate(damaged):
            add_case(folder, kind, start + count, content, paths)
        check_damaged(
            trials,
            try_cases(ARTIFACT, folder, tmp_path / f"journal-{start}"),
            intact,
        )
        shutil.rmtree(folder)


def check_damaged(trials: Trials, outcomes: list[Outcome], intact: dict[str, str]) -> None:
    for outcome in outcomes:
        kind = kind_of(outcome)
        with trials.trial(f"fuzz: damaged {kind}", outcome.name):
            outcome.check()
            if kind in CHECKED and outcome.read is not None:
                assert outcome.read == intact[kind], "it was read as something else"


def test_a_forged_file_is_refused_or_makes_numbers(
    paths: dict[str, Path], tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    number = rounds(90, 1_000)
    for start in range(0, number, AT_ONCE):
        some = min(AT_ONCE, number - start)
        outcomes, forged = try_forged(paths, tmp_path / f"{start}", start, some)
        for outcome in outcomes:
            with trials.trial(f"fuzz: forged {kind_of(outcome)}", forged[outcome.name]):
                outcome.check()


def try_forged(
    paths: dict[str, Path], folder: Path, seed: int, number: int
) -> tuple[list[Outcome], dict[str, str]]:
    """Return what became of so many forged files, and what was forged in each."""
    random = Random(seed)  # noqa: S311  (nothing is secret)
    forged = {}
    for count in range(number):
        kind = FORGED[count % len(FORGED)]
        case = folder / "cases" / f"{kind}-{count:05}"
        case.mkdir(parents=True)
        forged[case.name] = forge(paths[kind], case / FILE_NAMES[kind], random)
    outcomes = try_cases(FORGERY, folder / "cases", folder / "journal")
    shutil.rmtree(folder / "cases")
    return outcomes, forged


class _RunsCode:
    def __reduce__(self) -> object:
        return os.system, ("true",)


def test_readers_without_their_checks_are_found(
    paths: dict[str, Path], intact: dict[str, str], tmp_path: Path
) -> None:
    encoder = bytearray(paths["encoder"].read_bytes())
    encoder[-1] ^= 1
    for kind, content in (
        ("encoder", bytes(encoder)),
        ("cifar", pickle.dumps({"data": _RunsCode()})),
    ):
        add_case(tmp_path / "cases", kind, 0, content, paths)
    whole, without = Trials(), Trials()
    check_damaged(whole, try_cases(ARTIFACT, tmp_path / "cases", tmp_path / "whole"), intact)
    assert whole.tried.total() == 2
    whole.check()
    faults = ("load_without_digest", "unpickle_cifar")
    outcomes = try_cases(ARTIFACT, tmp_path / "cases", tmp_path / "without", *faults)
    check_damaged(without, outcomes, intact)
    assert len(without.failures) == 2
    assert any("os.system" in outcome.ran for outcome in outcomes)


def test_a_detector_that_calls_everything_normal_is_found(
    paths: dict[str, Path], tmp_path: Path
) -> None:
    case = tmp_path / "cases" / "detector-0"
    case.mkdir(parents=True)
    forge_tensor(paths["detector"], case / "detector.oddone", "gaussians.mean", "no number")
    fault = "load_numbers_that_are_none"
    (outcome,) = try_cases(FORGERY, tmp_path / "cases", tmp_path / "journal", fault)
    assert outcome.raised is not None
    assert "called normal, with the score nan" in outcome.raised
