"""The commands that are disturbed, on images so small that each takes less than a second.

Each is run in a folder of its own, `work`, with what was there before; all else that it needs is in
`inputs`. What it leaves in `work` when nothing disturbs it is what it must leave after any fault
and one more run.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from contents import HISTORY, PROVENANCE, Contents, contents_of
from launcher import Finished, Launcher
from PIL import Image

from runs import tiny_source
from tiny_onnx import tiny_onnx

TRAIN_OPTIONS = (
    *("--preset", "smoke", "--steps", "3", "--checkpoint-seconds", "0"),
    *("--batch.images", "12", "--model.image-size", "16"),
)


CHECKPOINTS = "/checkpoints/"
"""Only the last two are kept, so that older ones go as a run goes on."""


@dataclass(frozen=True)
class Command:
    """A command line, in which INPUTS and WORK stand for the two folders."""

    words: str
    before: tuple[str, ...] = ()
    """What is copied from the inputs, as NAME or NAME>NEW_NAME."""
    resume: str | None = None
    """How to go on after a fault; if that is refused, or not set, by the same words."""
    changes: tuple[str, ...] = ()
    """Functions of `changes.py`."""
    once: bool = False
    """Whether it refuses to do what is done already."""
    slow: bool = False
    """Whether it takes seconds, so that the short form has fewer trials of it."""


COMMANDS = {
    "train": Command(
        f"train INPUTS/photos --out WORK/run {' '.join(TRAIN_OPTIONS)}",
        resume="train --resume WORK/run",
    ),
    "extend": Command("train --resume WORK/run --steps 5", before=("run",)),
    "fit": Command("fit INPUTS/photos --out WORK/d.oddone --size 32 --rule energy", slow=True),
    "calibrate": Command(
        "calibrate WORK/run INPUTS/normal.npz --false-alarms 0.2", before=("run",)
    ),
    "cache": Command("calibrate INPUTS/run INPUTS/normal --out WORK/d.oddone"),
    "score csv": Command(
        "score INPUTS/run INPUTS/photos INPUTS/normal --explain --out WORK/scores.csv",
        before=("old.csv>scores.csv",),
    ),
    "score jsonl": Command("score INPUTS/run INPUTS/photos --out WORK/scores.jsonl"),
    "score parquet": Command("score INPUTS/run INPUTS/photos --out WORK/scores.parquet"),
    "score parts": Command(
        "score INPUTS/run INPUTS/photos INPUTS/normal --out WORK/scores",
        changes=("small_parts",),
        slow=True,
    ),
    "score shard": Command(
        "score INPUTS/run INPUTS/photos --shard 1/2 --out WORK/1.parquet", slow=True
    ),
    "score merge": Command(
        "score --merge INPUTS/1.parquet INPUTS/2.parquet --out WORK/scores.csv",
        before=("old.csv>scores.csv",),
        slow=True,
    ),
    "score copies": Command(
        "score INPUTS/run INPUTS/unseen --copy-anomalous WORK/odd --out WORK/scores.csv",
        before=("odd",),
        slow=True,
    ),
    "explain": Command(
        "explain INPUTS/run INPUTS/photos/class0/0.png --out WORK/why.png",
        before=("why.png",),
        slow=True,
    ),
    "report": Command(
        "report INPUTS/run --test INPUTS/normal --ood o=INPUTS/unseen.npz --out WORK/report.html",
        slow=True,
    ),
    "evaluate": Command(
        "evaluate INPUTS/run INPUTS/photos --ood o=INPUTS/unseen.npz --out WORK/result.json"
    ),
    "export": Command("export INPUTS/run --out WORK/d.onnx", changes=("quick_export",), slow=True),
    "export pt2": Command(
        "export INPUTS/run --out WORK/d.pt2", changes=("quick_export",), slow=True
    ),
    "export int8": Command(
        "export INPUTS/run --out WORK/d.onnx --int8 --calibration INPUTS/normal.npz",
        changes=("quick_export",),
        slow=True,
    ),
    "score onnx": Command("score INPUTS/tiny.onnx INPUTS/photos --out WORK/scores.csv", slow=True),
    "data fix": Command("data fix INPUTS/photos WORK/small", once=True, slow=True),
    "bench": Command(
        "bench paper-sei --ind arrays:INPUTS/training.npz --test INPUTS/normal.npz "
        "--ood o=INPUTS/unseen.npz --out WORK/bench",
        changes=("toy_bench",),
    ),
}


class Stage:
    """Where the commands are run."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.inputs, self.work = folder / "inputs", folder / "work"
        self._launcher = launcher
        self._undisturbed: dict[str, tuple[Finished, Contents]] = {}
        self._make_inputs()

    def _make_inputs(self) -> None:
        write_photos(self.inputs / "photos", seed=0)
        write_photos(self.inputs / "normal", seed=1)
        for name, images, seed in (("training", 60, 2), ("normal", 24, 3), ("unseen", 12, 4)):
            source = tiny_source(images, seed=seed)
            pixels = 255 - source.images if name == "unseen" else source.images
            np.savez(
                self.inputs / f"{name}.npz",
                images=pixels.transpose(0, 2, 3, 1),
                labels=source.labels,
            )
        (self.inputs / "tiny.onnx").write_bytes(tiny_onnx())
        write_photos(self.inputs / "unseen", seed=5, inverted=True)
        (self.inputs / "odd").mkdir()
        for name in ("odd/0.png", "why.png"):  # pictures of the user, of which one is replaced
            Image.new("RGB", (20, 20), "red").save(self.inputs / name)
        (self.inputs / "old.csv").write_text("path,score\nold.png,1.5\n")
        self.set_up(())
        made = self.run("train")
        assert made.code == 0, made.complained
        shutil.move(self.work / "run", self.inputs / "run")
        for shard in (1, 2):
            words = f"score INPUTS/run INPUTS/photos --shard {shard}/2 --out INPUTS/{shard}.parquet"
            made = self._run(words)
            assert made.code == 0, made.complained

    def set_up(self, before: Sequence[str]) -> None:
        """Make the folder as it is before a command."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        for copied in before:
            name, _, new = copied.partition(">")
            source, target = self.inputs / name, self.work / (new or name)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)

    def run(self, name: str, changes: Sequence[str] = (), **fault: object) -> Finished:
        """Run a command, disturbed or not, in the folder as it is."""
        command = COMMANDS[name]
        return self._run(command.words, changes=(*command.changes, *changes), **fault)

    def run_together(self, name: str, **fault: object) -> Finished:
        """Run a command in two processes, disturbed or not, in the folder as it is."""
        words = [*self._filled(COMMANDS[name].words), "--processes", "2"]
        return self._launcher.run_apart(words, self.work, **fault)

    def run_again(self, name: str) -> Finished:
        """Go on with a command that was disturbed, as a user would."""
        resume = COMMANDS[name].resume
        if resume is not None:
            finished = self._run(resume)
            if finished.code != 2:
                return finished
            check_is_one_line(finished, self.work)
        return self.run(name)

    def undisturbed(self, name: str) -> tuple[Finished, Contents]:
        """Return how a command ends that nothing disturbs, and what it leaves."""
        if name not in self._undisturbed:
            self.set_up(COMMANDS[name].before)
            finished = self.run(name)
            assert finished.code == 0, finished.complained
            self._undisturbed[name] = finished, contents_of(self.work)
        return self._undisturbed[name]

    def run_alone(self, name: str) -> None:
        """Run a command as its user does, in a process that shares nothing with this harness."""
        command = [sys.executable, "-m", "oddone", *self._filled(COMMANDS[name].words)]
        subprocess.run(  # noqa: S603
            command,
            check=True,
            capture_output=True,
            env={**os.environ, **self._launcher.environment, "OMP_NUM_THREADS": "1"},
        )

    def _run(self, words: str, **options: object) -> Finished:
        return self._launcher.run(self._filled(words), self.work, **options)

    def _filled(self, words: str) -> list[str]:
        return words.replace("INPUTS", str(self.inputs)).replace("WORK", str(self.work)).split()


def chosen_numbers(
    operations: Sequence[str], most: int, affected: Callable[[str], bool] = lambda _: True
) -> list[int]:
    """Return the numbers, counted from 1, of so many operations at random, or of all."""
    numbers = [
        number
        for number, operation in enumerate(operations, start=1)
        if affected(operation.partition(" ")[0])
    ]
    return sorted(random.Random(0).sample(numbers, min(len(numbers), most)))  # noqa: S311


def write_photos(folder: Path, seed: int, *, inverted: bool = False) -> None:
    """Write three classes of a few pictures each."""
    source = tiny_source(images=30, size=20, seed=seed)
    for number, (image, label) in enumerate(zip(source.images, source.labels, strict=True)):
        (folder / f"class{label}").mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((255 - image if inverted else image).transpose(1, 2, 0))
        picture.save(folder / f"class{label}" / f"{number}.png")


# --- What must hold ---------------------------------------------------------------------------


def check_is_one_line(finished: Finished, folder: Path) -> None:
    """Check that an error is one that names a file, and says what to do."""
    assert "Traceback" not in finished.complained, finished.complained
    assert finished.code == 2, (finished.code, finished.complained)
    told = [line for line in finished.complained.splitlines() if line.startswith("oddone: ")]
    assert len(told) == 1, finished.complained
    what, _, fix = told[0].rpartition("; ")
    assert str(folder) in what, told
    assert fix, told


def check_old_or_new(between: Contents, old: Contents, new: Contents) -> None:
    """Check that all files are as they were, or as they will be, but those that grow in a run."""
    for name, content in between.items():
        allowed = [state[name] for state in (old, new) if name in state]
        if allowed and not name.endswith((HISTORY, PROVENANCE)):
            assert content in allowed, f"{name} is neither what it was nor what it will be"


def check_kept(between: Contents, old: Contents, new: Contents) -> None:
    """Check that all files that were there are, as they were or as they will be."""
    check_old_or_new(between, old, new)
    gone = [name for name in old if name not in between and CHECKPOINTS not in name]
    assert not gone, gone


def check_again(stage: Stage, name: str, between: Contents, wanted: Contents) -> None:
    """Check that one more run leads to what is wanted, if that was not there already."""
    again = stage.run_again(name)
    if COMMANDS[name].once and between == wanted:
        check_is_one_line(again, stage.work)
    else:
        assert again.code == 0, again.complained
    check_equal(contents_of(stage.work), wanted)


def check_again_by_one(stage: Stage, name: str, before: Contents, wanted: Contents) -> None:
    """Check that one process goes on with what two have begun.

    What two compute is that of one but for the last digits, so what is in the end is compared with
    what was there meanwhile.
    """
    between = contents_of(stage.work)
    again = stage.run_again(name)
    assert again.code == 0, again.complained
    found = contents_of(stage.work)
    check_kept(between, before, found)
    assert sorted(found) == sorted(wanted)


def check_equal(found: Contents, wanted: Contents) -> None:
    """Check that two folders hold the same."""
    assert sorted(found) == sorted(wanted)
    for name, content in wanted.items():
        assert found[name] == content, f"{name}: {found[name]} instead of {content}"
