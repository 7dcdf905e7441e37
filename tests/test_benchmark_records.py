"""The records that benchmarks/ writes and the README's tables are made of."""

import json
from pathlib import Path

import pytest

import measure
import pages
import reliability_tables


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that records are written to, and read from, in a test."""
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(pages, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "docs" / "reliability.md"
    monkeypatch.setattr(reliability_tables, "RELIABILITY", page)
    return tmp_path / "results"


def test_a_record_says_what_was_measured_on_what_and_with_what(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure.write_measurements("loss", seed=3, packages=["numpy"], arguments="DIR", rows=2048)
    (path,) = results.iterdir()
    assert path.name.endswith("-speed-loss.json")
    assert capsys.readouterr().out == f"\nwritten to results/{path.name}\n"
    record = json.loads(path.read_text())
    assert record["command"] == "python benchmarks/loss.py DIR"
    assert (record["seed"], record["rows"]) == (3, 2048)
    assert list(record["machine"]) == ["system", "processor", "threads", "gpu"]
    assert list(record["versions"]) == ["python", "oddone", "torch", "numpy"]
    assert pages.newest("loss") == record | {"file": f"results/{path.name}"}


def test_the_newest_record_is_the_one_with_the_latest_date(results: Path) -> None:
    results.mkdir()
    for name, hour in (("2026-11-16", 4), ("2026-11-16-060000", 6), ("2026-11-16-050000", 5)):
        content = {"date": f"2026-11-16T0{hour}:00:00+00:00"}
        (results / f"{name}-speed-loss.json").write_text(json.dumps(content))
    assert pages.newest("loss")["file"] == "results/2026-11-16-060000-speed-loss.json"


def test_the_faults_that_were_tried_are_a_table_with_their_sums(results: Path) -> None:
    trials = {"kill: fit": {"tried": 1200, "failed": 0}, "kill: train": {"tried": 34, "failed": 5}}
    write_torture(trials, passed=False)
    lines = reliability_tables.faults_table().splitlines()
    assert lines[2:4] == ["| kill | fit, train | 1,234 | 5 |", "| all |  | 1,234 | 5 |"]
    assert lines[5] == "| tests | of the long form | on | seed | record |"
    assert lines[-1].startswith("| kill | 50% | ")
    (path,) = results.iterdir()
    assert lines[-1].endswith(f" | 0 | [torture](../results/{path.name}) |")


def test_a_record_of_faults_without_a_failure_that_did_not_pass_was_stopped(results: Path) -> None:
    write_torture({"kill: fit": {"tried": 12, "failed": 0}}, passed=False)
    *_, source = reliability_tables.faults_table().splitlines()
    assert source.startswith("| kill | 50%, stopped before its end | ")
    assert len(list(results.iterdir())) == 1


def write_torture(trials: dict[str, dict[str, int]], *, passed: bool) -> None:
    measure.write_measurements(
        "torture",
        kind="reliability",
        seed=0,
        packages=[],
        share=0.5,
        part="kill",
        passed=passed,
        trials=trials,
    )
