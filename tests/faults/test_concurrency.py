"""Many at once, and a world that changes meanwhile.

Elsewhere: two runs in one directory and a lock whose owner was killed (test_run_directory.py), two
fillings of one cache by threads and by processes (test_cache.py), two tables in one file
(test_out_file.py), torch in a forked child (test_device.py).
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from corpus_images import noise
from PIL import Image
from trials import Rounds, Trials

from oddone.data import load
from oddone.data.decode import decode, decode_or_reason
from oddone.detector import Detector
from oddone.errors import ArtifactError
from oddone.files import YOUNG_SECONDS, remove_leftovers, write_atomic
from oddone.training import RunDirectory, train_network
from runs import tiny_settings, tiny_source
from small_detector import fitted

THREADS = 32


def test_one_detector_in_many_threads_says_what_it_says_in_one(
    tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    detector, images = fitted(), tiny_source(images=64).images
    files = [tmp_path / f"{number}.png" for number in range(8)]
    for file, image in zip(files, images, strict=False):
        Image.fromarray(image.transpose(1, 2, 0)).save(file)
    starts = range(0, 64, 8)
    expected = {start: detector(images[start : start + 8]) for start in starts}
    rows = list(detector.score(tmp_path))
    together = threading.Barrier(THREADS)

    def call(number: int) -> None:
        together.wait()
        start = starts[number % len(starts)]
        found = detector(images[start : start + 8])
        with trials.trial("concurrency: one detector in 32 threads", number):
            assert torch.equal(found.scores, expected[start].scores)
            assert torch.equal(found.probabilities, expected[start].probabilities)
            for row, before in zip(detector.score(tmp_path), rows, strict=True):
                assert row.verdict is not None
                assert before.verdict is not None
                assert row.verdict.score == before.verdict.score

    for _ in range(rounds(1, 20)):
        with ThreadPoolExecutor(THREADS) as callers:
            list(callers.map(call, range(THREADS)))


AFTER_USE = """
import multiprocessing, sys
import torch
from oddone.detector import Detector

def scores(path):
    return Detector.load(path)(torch.zeros(40, 3, 16, 16)).scores.tolist()

def answer(path, pipe):
    pipe.send(scores(path))

if __name__ == "__main__":
    torch.set_num_threads(2)
    detector = Detector.load(sys.argv[1])
    expected = detector(torch.zeros(40, 3, 16, 16)).scores.tolist()  # uses torch's threads
    for method in sys.argv[2:]:
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        child = context.Process(target=answer, args=(sys.argv[1], theirs))
        child.start()
        assert ours.poll(240), f"{method}: it hangs"
        assert torch.allclose(torch.tensor(ours.recv()), torch.tensor(expected), rtol=1e-4), method
        child.join()
        print(method, child.exitcode)
"""


def test_a_detector_can_be_used_in_a_child_after_it_was_used(tmp_path: Path) -> None:
    fitted().save(tmp_path / "detector.oddone")
    (tmp_path / "after_use.py").write_text(AFTER_USE)
    methods = ["fork", "spawn"] if hasattr(os, "fork") else ["spawn"]
    command = [sys.executable, "after_use.py", "detector.oddone", *methods]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "2"}
    done = subprocess.run(  # noqa: S603
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{method} 0" for method in methods]


@contextmanager
def rewritten(path: Path, contents: list[bytes], *, whole: bool) -> Iterator[None]:
    """Write the contents into a file in turn, all the time: whole, or in place and in parts."""
    ended, random = threading.Event(), Random(0)  # noqa: S311  (nothing is secret)

    def rewrite() -> None:
        while not ended.is_set():
            content = random.choice(contents)
            if whole:
                write_atomic(path, content)
                continue
            with path.open("r+b", buffering=0) as file:
                file.truncate(random.randrange(len(content)))
                file.write(content[: len(content) // 2])
                file.write(content[len(content) // 2 :])

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize("whole", [True, False])
def test_a_detector_that_is_replaced_while_it_is_read_is_the_old_the_new_or_an_error(
    tmp_path: Path, rounds: Rounds, trials: Trials, whole: bool
) -> None:
    images, expected, contents = torch.zeros(1, 3, 16, 16), [], []
    for classes in (2, 3):
        detector = fitted(classes)
        detector.save(tmp_path / "detector.oddone")
        expected.append(detector(images).scores.item())
        contents.append((tmp_path / "detector.oddone").read_bytes())
    with rewritten(tmp_path / "detector.oddone", contents, whole=whole):
        for number in range(rounds(20, 500)):
            with trials.trial(f"concurrency: detector replaced {whole=}", number):
                try:
                    found = Detector.load(tmp_path / "detector.oddone")(images).scores.item()
                    assert found in expected
                except ArtifactError:
                    assert not whole


def test_a_picture_that_changes_while_it_is_read_is_one_of_both_or_broken(
    tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    contents, expected = [], []
    for seed in range(2):
        noise("RGB", seed).save(tmp_path / "a.png")
        contents.append((tmp_path / "a.png").read_bytes())
        expected.append(decode(tmp_path / "a.png", 16))
    with rewritten(tmp_path / "a.png", contents, whole=False):
        for number in range(rounds(300, 5_000)):
            with trials.trial("concurrency: picture changed", number):
                found = decode_or_reason(tmp_path / "a.png", 16)
                assert found != ""
                if not isinstance(found, str):
                    assert any(np.array_equal(found.image, each) for each in expected)


def test_a_folder_that_changes_while_it_is_decoded_is_decoded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache keeps pixels of before or after, but never gives those of before for after."""
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(40):
        noise("RGB", number).save(folder / f"{number:02}.png")

    def change(done: int, *_: object) -> None:
        if done == 32:  # all are read by now, or are being read
            Image.new("RGB", (26, 18), "red").save(folder / "00.png")

    load(f"flat:{folder}", size=16, progress=change)
    images = load(f"flat:{folder}", size=16)
    np.testing.assert_array_equal(images.images[0], decode(folder / "00.png", 16))


@pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")
@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_changes_no_weight_and_removes_no_file_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    settings, real, calls = tiny_settings(steps=4), time.time, count()

    def weights(name: str) -> bytes:
        run = RunDirectory.create(tmp_path / name, settings, {})
        train_network(tiny_source(), settings, run)
        return run.encoder_path.read_bytes()

    steady = weights("steady")
    monkeypatch.setattr("time.time", lambda: real() + jump * (next(calls) % 2))
    asleep = SimpleNamespace(
        monotonic=lambda: real() + abs(jump) * next(calls), process_time=time.process_time
    )
    monkeypatch.setattr("oddone.training.loop.time", asleep)
    assert weights("jumps") == steady
    left = tmp_path / f".oddone-{'0' * 16}.part"
    left.touch()
    os.utime(left, (real(), real() + YOUNG_SECONDS))  # written in what is now the future
    monkeypatch.setattr("time.time", real)
    remove_leftovers(tmp_path)
    assert left.exists()
