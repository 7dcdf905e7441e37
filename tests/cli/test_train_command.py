"""`oddone train` as a user runs it."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from oddone import train as oddone_train
from oddone.cli.train import _say_result
from oddone.cli.training_quality import describe_quality
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.encoders import load_network
from oddone.metrics import auroc
from oddone.presets import smoke
from oddone.training import Outcome, RunDirectory
from runs import tiny_settings, tiny_source

ODDONE = [sys.executable, "-c", "from oddone.cli import main; main()"]
SMALL = ["--steps", "3", "--batch.images", "8", "--preset", "smoke"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "ODDONE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}


def oddone(
    environment: dict[str, str], *arguments: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [*ODDONE, *map(str, arguments)]
    done = subprocess.run(  # noqa: S603
        command, check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_fresh_run_explains_itself(tmp_path: Path, environment: dict[str, str]) -> None:
    run = tmp_path / "run"
    done = oddone(environment, "train", "fashion:known", "--out", run, *SMALL)
    assert "4,800 images of 28 x 28 pixels in 8 classes" in done.stdout
    assert re.search(r"done: 3 steps in .* minutes, loss .* -> ", done.stdout)
    settings = tomllib.loads((run / "settings.toml").read_text())
    assert settings["steps"] == 3
    assert settings["batch"] == {
        "images": 8,
        "poses_per_image": 1,
        "upright_share": 0.25,
        "parts": 2,
    }
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["command"][:3] == ["oddone", "train", "fashion:known"]
    assert provenance["data"]["images"] == 4800
    assert provenance["versions"]["torch"]
    assert provenance["machine"]["threads"] >= 1
    assert len((run / "history.jsonl").read_text().splitlines()) == 3
    assert load_network(run / "encoder.safetensors").classes[0] == "t-shirt"


def test_a_folder_with_broken_files_trains_on_the_rest(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    generator = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "cats" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut short")
    (tmp_path / "photos" / "dogs" / "empty.png").touch()
    run = tmp_path / "run"
    done = oddone(environment, "train", tmp_path / "photos", "--out", run, *SMALL)
    assert "12 images of 32 x 32 pixels in 2 classes" in done.stdout
    assert "2 files could not be read" in done.stdout
    assert "empty.png: empty" in done.stdout
    strict = oddone(
        environment, "train", tmp_path / "photos", "--out", tmp_path / "s", "--strict", code=2
    )
    assert "broken.jpg" in strict.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_saves_and_the_printed_command_goes_on(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    long = ["train", "fashion", "--preset", "smoke", "--batch.images", "8", "--steps", "60"]
    oddone(environment, *long, "--out", whole)
    process = subprocess.Popen(  # noqa: S603
        [*ODDONE, *long, "--out", str(parts)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    history = parts / "history.jsonl"
    while not history.exists() or len(history.read_text().splitlines()) < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate()
    assert process.returncode == 130
    assert f"oddone train --resume {parts}" in printed
    assert "60 steps" in oddone(environment, "train", "--resume", parts).stdout
    ours, theirs = (load_file(run / "encoder.safetensors") for run in (whole, parts))
    assert all(ours[name].equal(theirs[name]) for name in ours)


def test_flags_win_over_the_file_and_the_file_over_the_preset(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "s.toml").write_text("steps = 1\nseed = 5\n[loss]\nalpha = 0.2\nbeta = 1.0\n")
    run = tmp_path / "run"
    oddone(
        environment, "train", "fashion", "--out", run, "--preset", "smoke",
        "--config", tmp_path / "s.toml", "--loss.beta", "2.0",
    )  # fmt: skip
    shorter = ["--config", run / "settings.toml", "--epochs", "0.001"]
    oddone(environment, "train", "fashion", "--out", tmp_path / "other", *shorter)
    assert "steps" not in tomllib.loads((tmp_path / "other" / "settings.toml").read_text())
    settings = tomllib.loads((run / "settings.toml").read_text())
    assert (settings["steps"], settings["seed"]) == (1, 5)
    assert "minutes" not in settings
    assert (settings["loss"]["alpha"], settings["loss"]["beta"]) == (0.2, 2.0)
    assert settings["model"]["encoder_name"] == "resnet10-w16"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fashion"], "say what to train on and where to"),
        (["fashion", "--out", "RUN", "--preset", "smok"], "did you mean 'smoke'?"),
        (["fashion", "--out", "RUN", "--preset", "x"], "the presets are cpu, pretrained"),
        (["fashion", "--out", "RUN", "--loss.alhpa", "1"], "Did you mean --loss.alpha?"),
        (["fashion", "--out", "RUN", "--loss.alpha", "9"], "alpha=9.0: choose it above 0"),
        (["fashion", "--out", "RUN", "--steps", "1", "--epochs", "1"], "set exactly one"),
        (["fashion", "--out", "RUN", "--model.encoder-name", "resnet43"], "resnet34"),
        (["fasion", "--out", "RUN"], "fashion"),
        (["--resume", "RUN"], "is not the directory of a run"),
        (["--resume", "RUN", "--minutes", "1"], "is not the directory of a run"),
        (["--resume", "RUN", "--seed", "1"], "so --seed would change nothing"),
        (["fashion", "--out", "RUN", "--config", "none.toml"], "none.toml"),
        (["--resume", "RUN", "--start", "other"], "so --start would change nothing"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], message: str
) -> None:
    filled = [str(tmp_path / "run") if word == "RUN" else word for word in arguments]
    done = oddone(environment, "train", *filled, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_run_directory_among_the_images_is_refused(
    run_oddone: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    for name in ("cats", "dogs"):
        (photos / name).mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(photos / name / "1.png")
    run = photos / "run"
    code, _, complained = run_oddone("train", str(photos), "--out", str(run), *SMALL)
    assert code == 2
    assert complained == (
        f"oddone: --out {run} lies in {photos}, so the next command would take the run for images; "
        f"choose a folder outside\n"
    )
    assert not run.exists()


def test_a_run_that_exists_is_not_overwritten_by_accident(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run = tmp_path / "run"
    oddone(environment, "train", "fashion", "--out", run, *SMALL)
    before = (run / "encoder.safetensors").read_bytes()
    again = oddone(environment, "train", "fashion", "--out", run, *SMALL, code=2)
    assert "--resume" in again.stderr
    assert (run / "encoder.safetensors").read_bytes() == before
    oddone(environment, "train", "fashion", "--out", run, *SMALL, "--seed", "1", "--overwrite")
    assert (run / "encoder.safetensors").read_bytes() != before


def test_changed_images_are_not_resumed(tmp_path: Path, environment: dict[str, str]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 2)
    run = tmp_path / "run"
    oddone(environment, "train", tmp_path / "a.npz", "--out", run, *SMALL)
    np.savez(tmp_path / "a.npz", images=images[::-1], labels=np.arange(20) % 2)
    done = oddone(environment, "train", "--resume", run, code=2)
    assert "have changed since" in done.stderr


def test_tensorboard_gets_the_history(tmp_path: Path, environment: dict[str, str]) -> None:
    run = tmp_path / "run"
    oddone(environment, "train", "fashion", "--out", run, *SMALL, "--tensorboard")
    assert list((run / "tensorboard").glob("events.out.tfevents.*"))


def test_settings_the_paper_advises_against_get_one_line_of_advice(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    arguments = ["train", "fashion", "--out", tmp_path / "run", *SMALL, "--loss.alpha", "0.001"]
    done = oddone(environment, *arguments)
    assert done.stderr.count("note: alpha=0.001 is outside") == 1


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return 20 labelled noise images of 16 x 16 pixels."""
    return noise(tmp_path / "photos.npz", size=16, seed=0)


def noise(path: Path, *, size: int, seed: int) -> Path:
    images = np.random.default_rng(seed).integers(0, 256, (20, size, size, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(20) % 2)
    return path


def test_a_run_starts_from_another_and_goes_on_without_it(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    words = [str(photos), *SMALL]
    first, other, tuned = (tmp_path / name for name in ("first", "other", "tuned"))
    assert run_oddone("train", *words, "--out", str(first), "--objective", "simclr")[0] == 0
    encoder = first / "encoder.safetensors"
    for out, start in ((other, encoder), (tuned, first)):
        fine_tuning = ["--start", str(start), "--objective", "cross-entropy"]
        code, _, complained = run_oddone("train", *words, "--out", str(out), *fine_tuning)
        assert code == 0, complained
        provenance = json.loads((out / "provenance.json").read_text())
        digest = hashlib.sha256(encoder.read_bytes()).hexdigest()
        assert provenance["start"] == {"encoder": str(encoder), "sha256": digest}
    finished = load_file(tuned / "encoder.safetensors")

    encoder.unlink()
    for file in (tuned / "checkpoints" / "000000003.safetensors", tuned / "encoder.safetensors"):
        file.unlink()
    assert [path.name for path in (tuned / "checkpoints").iterdir()] == ["000000000.safetensors"]
    assert run_oddone("train", "--resume", str(tuned))[0] == 0
    again = load_file(tuned / "encoder.safetensors")
    assert all(again[name].equal(finished[name]) for name in finished)

    for file in (tuned / "checkpoints").iterdir():
        file.unlink()
    code, _, complained = run_oddone("train", "--resume", str(tuned))
    assert code == 2
    assert "was stopped before it had the weights of" in complained


def test_a_start_that_does_not_fit_leaves_no_run_behind(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    first, out = tmp_path / "first", tmp_path / "tuned"
    assert run_oddone("train", str(photos), *SMALL, "--out", str(first))[0] == 0
    larger = noise(tmp_path / "larger.npz", size=24, seed=0)
    for words, message in (
        ([photos, "--start", first, "--model.head-dim", "9"], "64 and 32 and this run trains"),
        ([larger, "--start", first, "--size", "24"], "16 x 16 pixels and these have 24 x 24"),
        ([photos, "--start", tmp_path], "holds no encoder.safetensors; name the file"),
        ([photos, "--start", first / "detector.oddone"], "is a detector, not an encoder"),
        ([photos, "--start", tmp_path / "none"], "none does not exist"),
        ([photos, "--start", first, "--sha256", "0" * 64], f", not {'0' * 64}; do not use it"),
        ([photos, "--sha256", "0" * 64], "of the encoder to start from; name it with --start"),
    ):
        code, _, complained = run_oddone("train", *map(str, words), *SMALL, "--out", str(out))
        assert code == 2
        assert message in complained
        assert not out.exists()
    digest = hashlib.sha256((first / "encoder.safetensors").read_bytes()).hexdigest()
    pinned = [str(photos), "--start", str(first), "--sha256", digest]
    assert run_oddone("train", *pinned, *SMALL, "--out", str(out))[0] == 0
    fine_tuning = ["--start", str(first), "--steps", "2", "--out", str(tmp_path / "resized")]
    code, printed, complained = run_oddone("train", str(larger), *fine_tuning)
    assert code == 0, complained
    assert "20 images of 16 x 16 pixels" in printed


def test_outliers_are_loaded_at_the_size_of_the_images_and_again_to_go_on(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    odd, run = noise(tmp_path / "odd.npz", size=20, seed=1), tmp_path / "run"
    exposed = ["--out", str(run), "--outliers", str(odd), "--objective", "cross-entropy"]
    code, printed, complained = run_oddone("train", str(photos), *SMALL, *exposed)
    assert code == 0, complained
    assert f"20 images of 16 x 16 pixels in 2 classes from {odd}" in printed
    provenance = json.loads((run / "provenance.json").read_text())
    assert (provenance["outliers"]["source"], provenance["outliers"]["size"]) == (str(odd), 16)
    assert provenance["outliers"]["fingerprint"] != provenance["data"]["fingerprint"]
    history = (run / "history.jsonl").read_text().splitlines()
    assert all("outliers" in json.loads(line)["terms"] for line in history)
    finished = load_file(run / "encoder.safetensors")

    for file in (run / "checkpoints" / "000000003.safetensors", run / "encoder.safetensors"):
        file.unlink()  # as if it had been killed before its first checkpoint
    assert run_oddone("train", "--resume", str(run))[0] == 0
    again = load_file(run / "encoder.safetensors")
    assert all(again[name].equal(finished[name]) for name in finished)

    noise(odd, size=20, seed=2)
    code, _, complained = run_oddone("train", "--resume", str(run))
    assert code == 2
    assert f"the images of {odd} have changed since" in complained


def test_outliers_are_for_cross_entropy_alone(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    out = ["--out", str(tmp_path / "run"), "--outliers", str(photos)]
    code, _, complained = run_oddone("train", str(photos), *SMALL, *out)
    assert code == 2
    assert "objective='mcl'; choose objective='cross-entropy'" in complained
    assert not (tmp_path / "run").exists()


def test_a_run_that_cannot_be_written_or_begun_is_one_line_and_leaves_nothing(
    tmp_path: Path,
    photos: Path,
    run_oddone: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    before = sorted(tmp_path.iterdir())
    for words, message in (
        (
            ["nowhere", "--out", photos / "run"],
            "run cannot be written: ",
        ),  # before it is looked for
        ([photos, "--out", photos], "photos.npz cannot be written: "),
        ([photos, "--out", tmp_path / "r", "--device", "mps"], "mps"),
        ([photos, "--out", tmp_path / "r", "--tensorboard"], "oddone[tensorboard]"),
        ([photos, "--out", tmp_path / "r", "--encoder", "resnet43"], "did you mean 'resnet34'?"),
    ):
        code, _, complained = run_oddone("train", *map(str, words), *SMALL)
        assert code == 2
        assert message in complained
        assert complained.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("loss", "explained"), [(-0.5, 1), (0.5, 0)])
def test_a_loss_below_zero_is_explained_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: float, explained: int
) -> None:
    run = RunDirectory.create(tmp_path / "run", smoke(), {})
    for step, value in ((1, 3.0), (2, loss)):
        run.append_history({"step": step, "loss": value})
    _say_result(Outcome(finished=True, stopped=False, step=2, seconds=60.0), run)
    printed = capsys.readouterr().out
    assert f"2 steps in 1.0 minutes, loss 3.000 -> {loss:.3f}" in printed
    assert printed.count("a loss below zero is as it should be") == explained


def test_a_finished_run_is_extended_on_images_that_have_moved(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved.npz"
    assert run_oddone("train", str(photos), "--out", str(run), *SMALL)[0] == 0
    began = json.loads((run / "provenance.json").read_text())
    before = (run / "detector.oddone").read_bytes()
    photos.rename(moved)

    def refused(*words: str, by: str) -> None:
        code, _, complained = run_oddone("train", "--resume", str(run), *words)
        assert code == 2
        assert by in complained
        assert json.loads((run / "provenance.json").read_text()) == began

    refused(by=f"if the images of {run} have moved, name their place with --source")
    noise(photos, size=16, seed=1)
    refused("--source", str(photos), by=f"the images of {photos} have changed since {run} began")
    refused("--source", str(moved), "--steps", "5", "--epochs", "2", by="set exactly one of epochs")
    photos.unlink()

    code, printed, complained = run_oddone(
        "train", "--resume", str(run), "--source", str(moved), "--steps", "5"
    )
    assert code == 0, complained
    assert "done: 5 steps" in printed
    assert tomllib.loads((run / "settings.toml").read_text())["steps"] == 5
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["data"] == {**began["data"], "source": str(moved)}
    assert [each["to"] for each in provenance["extended"]] == [{"steps": 5}]
    assert (run / "detector.oddone").read_bytes() != before
    assert Detector.load(run).provenance == provenance

    began = provenance
    refused("--steps", "4", by=f"{run} has made 5 steps in 0.0 minutes already")
    refused("--epochs", "0.5", by="choose more")
    assert run_oddone("train", "--resume", str(run))[0] == 0  # a run that is not extended
    assert json.loads((run / "provenance.json").read_text()) == began


def test_a_run_without_a_checkpoint_begins_anew_and_says_so_unless_it_is_trained(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    run, words = tmp_path / "run", ("--preset", "smoke", "--steps", "2")
    assert run_oddone("train", str(photos), "--out", str(run), *words)[0] == 0
    first = (run / "encoder.safetensors").read_bytes()
    for file in (run / "checkpoints").iterdir():
        file.unlink()
    for more in ((), ("--steps", "3")):
        code, _, complained = run_oddone("train", "--resume", str(run), *more)
        assert code == 2
        assert "is trained and has no checkpoint any more" in complained
    assert (run / "encoder.safetensors").read_bytes() == first
    (run / "encoder.safetensors").unlink()  # as if it had been killed in its second step
    code, printed, complained = run_oddone("train", "--resume", str(run))
    assert code == 0, complained
    assert f"{run} was stopped before its first checkpoint, so it begins anew" in printed
    assert (run / "encoder.safetensors").read_bytes() == first
    assert [line["step"] for line in RunDirectory.open(run).history()] == [1, 2]
    assert "begins anew" not in run_oddone("train", "--resume", str(run))[1]


def test_a_class_with_too_few_images_for_a_detector_is_refused_before_training(
    tmp_path: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "few.npz", images=images, labels=np.arange(9) // 8)
    words = ("train", str(tmp_path / "few.npz"), "--out", str(tmp_path / "run"))
    code, _, complained = run_oddone(*words, "--preset", "smoke")
    assert code == 2
    assert "the number of images to train on is 1 (and 0 held out)" in " ".join(complained.split())
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_begun_in_python_is_resumed_where_its_images_are_named(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    run = tmp_path / "run"
    oddone_train(str(photos), replace(smoke(), steps=2, held_out=0.0), out=run)
    code, _, complained = run_oddone("train", "--resume", str(run), "--steps", "3")
    assert code == 2
    assert "does not say where its images are; name them with --source" in complained
    words = ("train", str(photos), "--resume", str(run), "--steps", "3")
    code, printed, complained = run_oddone(*words)
    assert code == 0, complained
    assert "done: 3 steps" in printed


def test_a_run_on_an_encoder_of_ones_own_is_not_resumed_without_it(
    tmp_path: Path, photos: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    run, encoder = tmp_path / "run", nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    oddone_train(str(photos), replace(smoke(), steps=2, held_out=0.0), out=run, encoder=encoder)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for words in ((), ("--source", str(photos)), ("--source", str(photos), "--steps", "3")):
        code, _, complained = run_oddone("train", "--resume", str(run), *words)
        assert code == 2
        assert f"{run} trains an encoder of your own, Sequential" in complained
        assert "oddone.train(source, out=" in complained
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_one_class_becomes_a_detector_that_says_normal_or_not(
    tmp_path: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    images = np.random.default_rng(0).integers(0, 60, (40, 16, 16, 3), dtype=np.uint8)
    images[:, :8, :8] += 150  # upright is upright
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npy"
    np.savez(good, images=images, labels=np.zeros(40, dtype=int), classes=["good"])
    np.save(bad, 255 - images)
    run = str(tmp_path / "run")
    code, printed, complained = run_oddone("train", str(good), "--out", run, *SMALL)
    assert code == 0, complained
    assert "one class: the detector will say whether an image is normal; the label is" in printed
    assert "accuracy" not in printed
    code, printed, complained = run_oddone("score", run, str(bad))
    assert (code, printed.count(",good,")) == (0, 40), complained
    page, evaluated = str(tmp_path / "report.html"), str(tmp_path / "evaluated.json")
    for words in (
        ["explain", run, str(good), "--number", "0", "--out", str(tmp_path / "why.png")],
        ["evaluate", run, str(good), "--ood", f"bad={bad}", "--out", evaluated],
        ["report", run, "--test", str(good), "--ood", f"bad={bad}", "--out", page],
    ):
        code, printed, complained = run_oddone(*words)
        assert code == 0, complained
        if words[0] == "evaluate":
            assert "with one class every image gets the label good" in printed
    assert json.loads(Path(evaluated).read_text())["accuracy"] is None


def test_quality_on_held_out_images_is_told_and_kept(
    tmp_path: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    source, run = written(tmp_path / "tiny.npz", tiny_source(images=120)), tmp_path / "run"
    words = ["train", source, "--out", str(run), "--preset", "smoke", "--held-out", "0.25"]
    code, printed, complained = run_oddone(*words, "--steps", "60")
    assert code == 0, complained
    held_out = Detector.load(run).provenance["held_out"]
    assert held_out == json.loads((run / "provenance.json").read_text())["held_out"]
    assert held_out["images"] == 30
    assert f"{held_out['accuracy']:.1%} of 30 held-out images get the right label" in printed
    assert held_out["accuracy"] > 0.8
    assert "that is" not in printed
    code, printed, _ = run_oddone("train", source, "--out", str(tmp_path / "short"), *SMALL)
    assert "each image was seen 0.2 times; train longer, oddone train --resume" in printed
    assert f"fit a pretrained encoder, oddone fit {source} --out X.oddone" in printed


def written(path: Path, source: ImageSet) -> str:
    """Return the notation of a file with these images."""
    images = source.images.transpose(0, 2, 3, 1)
    np.savez(path, images=images, labels=source.labels, classes=np.array(source.classes))
    return str(path)


@pytest.mark.parametrize(
    ("accuracy", "epochs", "images", "expected"),
    [
        (0.9, 50.0, 300, []),
        (0.7, 50.0, 300, ["that is poor: train longer, or fit a pretrained encoder"]),
        (0.7, 50.0, 30, ["that is poor: there are 10 images a class to learn from; add more"]),
        (0.7, 3.0, 30, ["that is poor: each image was seen 3.0 times; train longer"]),
        (0.9, 3.0, 300, ["that is little training: each image was seen 3.0 times"]),
    ],
)
def test_poor_quality_is_said_with_why_and_what_to_do(
    uncalibrated: Detector,
    tmp_path: Path,
    accuracy: float,
    epochs: float,
    images: int,
    expected: list[str],
) -> None:
    about = {"held_out": {"images": 20, "accuracy": accuracy}, "data": {"images": images}}
    detector = replace(uncalibrated, provenance=about)
    first, *advice = describe_quality(detector, RunDirectory(tmp_path), epochs)
    assert first == f"{accuracy:.1%} of 20 held-out images get the right label"
    assert len(advice) == len(expected)
    assert all(sentence.startswith(start) for sentence, start in zip(advice, expected, strict=True))


@pytest.mark.parametrize(
    ("held_out", "words"),
    [
        (0.1, "no class has the 5 images of which one is held out; add more, or fit a pretrained"),
        (0.0, "it was trained on every image (held_out = 0); oddone evaluate measures it on"),
    ],
)
def test_why_quality_is_not_known_is_said(
    uncalibrated: Detector, tmp_path: Path, held_out: float, words: str
) -> None:
    run = RunDirectory.create(tmp_path / "run", tiny_settings(held_out=held_out), {})
    (sentence,) = describe_quality(replace(uncalibrated, provenance={}), run, epochs=50.0)
    assert sentence.startswith(f"how good it is, is not known: {words}")


def test_the_images_of_a_left_out_class_are_no_images_to_learn_from(
    uncalibrated: Detector, tmp_path: Path
) -> None:
    about = {
        "held_out": {"images": 20, "accuracy": 0.5},
        "data": {"images": 40},
        "left_out": {"class": "owl", "images": 10},
    }
    detector = replace(uncalibrated, provenance=about)
    sentences = list(describe_quality(detector, RunDirectory(tmp_path), epochs=50.0))
    assert sentences[1].startswith("that is poor: there are 10 images a class to learn from")


def test_a_class_that_is_left_out_says_how_well_unseen_images_are_told(
    tmp_path: Path, run_oddone: Callable[..., tuple[int, str, str]]
) -> None:
    source, run = written(tmp_path / "tiny.npz", tiny_source(images=120)), tmp_path / "run"
    words = ["train", source, "--out", str(run), *SMALL, "--leave-out", "class 1"]
    code, printed, complained = run_oddone(*words)
    assert code == 0, complained
    detector = Detector.load(run)
    assert detector.classes == ("class 0", "class 2")
    assert detector.calibration is not None
    unseen = tiny_source(images=120).images[1::3]
    expected = auroc(detector.calibration.scores, detector(unseen).scores)
    left_out = {"class": "class 1", "auroc": pytest.approx(expected), "images": 40}
    assert detector.provenance["left_out"] == left_out
    assert json.loads((run / "provenance.json").read_text())["left_out"] == left_out
    assert "trained without the 40 images of 'class 1'" in printed
    assert f"told from 8 held-out images with AUROC {expected:.1%}" in printed

    code, printed, complained = run_oddone("train", "--resume", str(run), "--steps", "4")
    assert code == 0, complained
    assert Detector.load(run).classes == ("class 0", "class 2")
    assert "told from 8 held-out images with AUROC" in printed
    words = ["train", source, "--out", str(tmp_path / "none"), *SMALL, "--leave-out", "class 9"]
    assert run_oddone(*words)[0] == 2
    assert not (tmp_path / "none").exists()
