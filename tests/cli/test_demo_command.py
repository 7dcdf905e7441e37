import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oddone.data import ImageSet, load

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fewer_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo see a quarter of its images, which are plenty to see that it works."""

    def load_fewer(*source: str, **options: Any) -> ImageSet:
        images = load(*source, **options)
        return replace(
            images, images=images.images[::4], labels=images.labels[::4], paths=images.paths[::4]
        )

    monkeypatch.setattr("oddone.cli.demo.load", load_fewer)


@pytest.mark.usefixtures("fewer_images")
@pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")
def test_the_demo_compares_explains_and_goes_on_where_it_stopped(
    tmp_path: Path, run_oddone: Run
) -> None:
    out = tmp_path / "demo"
    code, printed, _ = run_oddone("demo", "--out", str(out), "--minutes", "0.01")
    assert code == 0
    for words in (
        "MCL, eight views",
        "MCL, one view",
        "cross-entropy, energy + distance",
        "oddone train",
    ):
        assert words in printed
    measured = json.loads((out / "demo.json").read_text())
    assert len(measured) == 5
    for result in measured.values():
        assert 0 < result["accuracy"] <= 1
        assert set(result["oods"]) == {"unseen garments", "digits"}
    assert sorted(path.name for path in out.glob("*.png")) == [
        "explain-digit.png",
        "explain-known.png",
        "explain-unseen.png",
    ]
    trained = (out / "mcl" / "encoder.safetensors").stat().st_mtime_ns
    code, again, _ = run_oddone("demo", "--out", str(out))
    assert code == 0
    assert (out / "mcl" / "encoder.safetensors").stat().st_mtime_ns == trained
    assert table_of(again) == table_of(printed)


def test_what_is_no_demo_is_not_removed(tmp_path: Path, run_oddone: Run) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    code, _, complaint = run_oddone("demo", "--out", str(tmp_path), "--overwrite")
    assert code == 2
    assert "holds no earlier demo" in complaint
    assert (tmp_path / "mine.txt").exists()


def table_of(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if "%" in line and "scores" not in line]
