"""`oddone bench`: from folders of images to a table, and records shown."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oddone.bench import write_record
from oddone.training import Outcome
from records import made_up_record
from runs import scale_of, tiny_settings, tiny_source

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _toy_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scale cpu take two steps."""
    settings = tiny_settings(steps=2, checkpoint_seconds=60.0)
    for name in ("cpu_scale", "scaling_scale"):
        monkeypatch.setattr(f"oddone.cli.bench.{name}", lambda _: scale_of(settings, "cpu"))


def write_images(path: Path, images: int, seed: int, *, odd: bool = False) -> Path:
    source = tiny_source(images, seed=seed)
    pixels = 255 - source.images if odd else source.images
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, images=pixels.transpose(0, 2, 3, 1), labels=source.labels)
    return path


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return options of a small bench, in whose data folder there are textures."""
    training = write_images(tmp_path / "training.npz", 60, seed=0)
    test = write_images(tmp_path / "test.npz", 24, seed=1)
    unseen = write_images(tmp_path / "unseen.npz", 12, seed=2, odd=True)
    write_images(tmp_path / "data" / "textures.npz", 12, seed=3, odd=True)
    return [
        *("--ind", f"arrays:{training}", "--test", str(test), "--ood", f"cifar100={unseen}"),
        *("--data", str(tmp_path / "data"), "--out", str(tmp_path / "bench")),
    ]


def records_in(folder: Path) -> list[Path]:
    return sorted((folder / "bench").glob("*-bench-*.json"))


def test_a_table_is_filled_recorded_and_shown(
    run_oddone: Run, words: list[str], tmp_path: Path
) -> None:
    code, printed, told = run_oddone("bench", "paper-sei", *words, "--limit", "8")
    assert code == 0
    assert "network 1 of 1: MCL, seed 0" in told
    assert "scoring by MCL, seed 0" in told
    assert "MCL + 8-way SEI" in printed
    assert "textures 8 of 12" in printed
    (path,) = records_in(tmp_path)
    assert f"the record is {path}" in printed
    record = json.loads(path.read_text())
    assert record["command"] == (
        "oddone bench paper-sei --data DIR --out DIR --scale cpu --seeds 1 --limit 8 "
        "--ind arrays:DIR --test DIR --ood cifar100=DIR"
    )
    assert str(tmp_path) not in path.read_text()
    for format_, mark in (("markdown", "| MCL + 8-way SEI | w-avg |"), ("csv", "table,scale")):
        code, printed, _ = run_oddone("bench", "show", str(path), "--format", format_)
        assert code == 0
        assert mark in printed
    page, text = tmp_path / "page.html", tmp_path / "text.txt"
    run_oddone("bench", "show", str(path), "--format", "html", "--out", str(page))
    run_oddone("report", str(path), "--out", str(tmp_path / "report.html"))
    assert page.read_text() == (tmp_path / "report.html").read_text()
    run_oddone("bench", "show", str(path), "--out", str(text))
    assert "MCL + 8-way SEI" in text.read_text()
    code, printed, _ = run_oddone("bench", "show", str(path))
    assert "MCL + 8-way" in printed


def test_a_stopped_bench_says_how_to_go_on_and_leaves_no_record(
    run_oddone: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            "oddone.cli.bench.train_with_progress",
            lambda *_, **__: Outcome(finished=False, stopped=True, step=1, seconds=1.0),
        )
        code, _, told = run_oddone("bench", "paper-sei", *words)
    assert code == 130
    assert "oddone bench paper-sei --ind arrays:" in told
    assert records_in(tmp_path) == []
    code, _, _ = run_oddone("bench", "paper-sei", *words)
    assert code == 0


def test_methods_are_compared_by_minutes_bit_by_bit(
    run_oddone: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step costs two minutes of one core, so each minute of two cores pays for one."""
    monkeypatch.setattr("oddone.cli.bench.measure_step", lambda *_: 120.0)
    code, printed, told = run_oddone("bench", "scaling", *words, "--minutes", "1")
    assert code == 0
    assert "measuring what a step costs" in told
    assert "preset cpu" in printed
    code, printed, told = run_oddone(
        *("bench", "scaling", *words, "--minutes", "2", "--minutes", "1", "--no-train")
    )
    assert code == 0
    assert "Left out: preset cpu 2: seed 0 not trained yet." in printed
    record = json.loads(records_in(tmp_path)[-1].read_text())
    assert {row["minutes"] for row in record["rows"]} == {1.0}
    assert {model["steps"] for model in record["models"]} == {1}
    assert "--scale cpu --minutes 2.0 --minutes 1.0 --seeds 1" in record["command"]
    assert record["command"].endswith("--no-train")


def test_a_record_of_another_machine_is_gone_on_from(
    run_oddone: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.cli.bench.measure_step", lambda *_: 120.0)
    few = ("--minutes", "1", "--limit", "8")
    assert run_oddone("bench", "scaling", *words, *few)[0] == 0
    (path,) = records_in(tmp_path)
    elsewhere = [*words[:-1], str(tmp_path / "elsewhere")]
    going_on = ("bench", "scaling", *elsewhere, "--earlier", str(path), "--no-train")
    code, printed, told = run_oddone(*going_on, *few)
    assert code == 0
    assert "taken over from earlier records: 6 of 6 results" in told
    assert "scoring" not in told
    assert "With numbers of earlier records" in printed
    before, after = (
        json.loads(file.read_text())
        for file in (path, *(tmp_path / "elsewhere").glob("*-bench-*.json"))
    )
    assert after["rows"] == before["rows"]
    assert after["command"].endswith("--earlier RECORD --no-train")
    code, _, told = run_oddone(*going_on, "--minutes", "1")
    assert code == 2
    assert "other images (test images, textures, cifar100)" in " ".join(told.split())


def test_without_cifar10_the_fix_is_named(run_oddone: Run, tmp_path: Path) -> None:
    code, _, told = run_oddone(
        "bench", "paper-sei", "--data", str(tmp_path), "--out", str(tmp_path / "bench")
    )
    assert code == 2
    assert "there is no CIFAR-10 to train on; get it with oddone data get cifar10" in told


@pytest.mark.parametrize(
    ("table", "more", "message"),
    [
        ("paper-six", (), "there is no table 'paper-six'; did you mean 'paper-s"),
        ("nonsense", (), "the tables are paper-main, paper-supclr"),
        ("paper-sei", ("--seeds", "0"), "--seeds 0: train at least once"),
        ("paper-sei", ("--scale", "paper", "--minutes", "3"), "leave --minutes out"),
        ("paper-sei", ("--ood", "=unseen.npz"), "--ood =unseen.npz: write NAME=SOURCE"),
        ("paper-sei", ("--ood", "cifar100=again.npz"), "'cifar100' is there already"),
        ("paper-sei", ("--limit", "0"), "limit=0: score at least 1 image"),
        ("paper-sei", ("--minutes", "1", "--minutes", "2"), "--minutes are given 2 times, and"),
        ("scaling", ("--scale", "paper"), "minutes belong to --scale cpu"),
        ("paper-sei", ("--no-train",), "none of the networks of paper-sei is trained yet"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run_oddone: Run, words: list[str], table: str, more: tuple[str, ...], message: str
) -> None:
    code, _, told = run_oddone("bench", table, *words, *more)
    assert code == 2
    assert message in told
    assert "Traceback" not in told


def test_a_split_of_the_training_images_asks_for_the_test_images(
    run_oddone: Run, tmp_path: Path
) -> None:
    code, _, told = run_oddone(
        "bench", "paper-sei", "--ind", "fashion#train", "--out", str(tmp_path / "bench")
    )
    assert code == 2
    assert "--ind fashion#train names a split; name the test images with --test too" in told


def test_a_file_is_no_folder_for_records(run_oddone: Run, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "bench").touch()
    code, _, told = run_oddone("bench", "paper-sei", *words)
    assert code == 2
    assert "it is a file; name a folder" in told


def test_a_folder_stands_for_the_records_in_it_sorted_by_name(
    run_oddone: Run, tmp_path: Path
) -> None:
    for table in ("paper-sei", "paper-main"):
        write_record(tmp_path, made_up_record(table, "svhn"))
    (tmp_path / "2026-11-16-speed-loss.json").write_text("{}")
    (tmp_path / "models" / "a-bench-b.json").mkdir(parents=True)
    code, printed, told = run_oddone("bench", "show", str(tmp_path), "--format", "csv")
    assert (code, told) == (0, "")
    tables = list(dict.fromkeys(line.split(",")[0] for line in printed.splitlines()))
    assert tables == ["table", "paper-main", "paper-sei"]
    code, printed, _ = run_oddone("bench", "show", str(tmp_path), "--format", "html")
    assert code == 0
    assert "<h1>Report on paper-main and paper-sei</h1>" in printed


def test_a_folder_without_records_is_an_error(run_oddone: Run, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    code, printed, told = run_oddone("bench", "show", str(tmp_path))
    assert (code, printed) == (2, "")
    assert f"{tmp_path} holds no record of oddone bench (*-bench-*.json); name another" in told
    assert told.count("\n") == 1


def test_show_asks_for_a_record_and_a_folder_that_exists(run_oddone: Run, tmp_path: Path) -> None:
    code, _, told = run_oddone("bench", "show")
    assert code == 2
    assert "name a record or a folder of records: oddone bench show RECORD" in told
    missing = tmp_path / "nowhere" / "page.html"
    code, _, told = run_oddone("bench", "show", "record.json", "--out", str(missing))
    assert code == 2
    assert "name a file in a folder that exists" in told
    code, _, told = run_oddone("bench", "show", str(tmp_path / "record.json"))
    assert code == 2
    assert "cannot be read: No such file" in told
