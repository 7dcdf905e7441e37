"""A service that is killed, whose disk is full, or that is sent the worst pictures there are."""

import os
import random
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from corpus_images import hostile_pictures, mutated_pictures, valid_pictures
from PIL import Image
from trials import Rounds, Trials

from runs import tiny_source
from small_detector import fitted

pytest.importorskip("fastapi", reason="oddone[service] is not installed")
sys.path.append(str(Path(__file__).parent.parent / "service"))

import httpx
from running_server import running_server, score, served_in_thread

from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits and signals")
FEW_BYTES = 300_000
CLIENTS = 4
SECONDS_TO_ANSWER = 60.0


@pytest.fixture(scope="module")
def detector_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "tiny.oddone"
    fitted().save(path)
    return path


@pytest.fixture(scope="module")
def picture() -> bytes:
    file = BytesIO()
    Image.fromarray(tiny_source(images=1).images[0].transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


def stored_in(path: Path) -> dict[int, str]:
    """Return what was said, by its number."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        return dict(connection.execute("select id, said from feedback"))


class Marks:
    """Four clients that say the same of a picture again and again, and what was acknowledged."""

    def __init__(self, url: str, sha256: str, said: str = "normal") -> None:
        self.numbers: list[int] = []
        self.enough = threading.Event()
        """Set when they shall stop."""
        self._url, self._body = f"{url}/v1/feedback", {"sha256": sha256, "said": said}
        self._clients = [threading.Thread(target=self._say) for _ in range(CLIENTS)]
        for client in self._clients:
            client.start()

    def _say(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self.enough.is_set():
                try:
                    answer = client.post(self._url, json=self._body)
                except httpx.TransportError:
                    return
                if answer.status_code != 201:
                    assert answer.status_code == 507
                    return
                self.numbers.append(answer.json()["number"])

    def wait_for(self, number: int) -> None:
        """Wait until so many were acknowledged, or no client is left, or it takes too long."""
        began = time.monotonic()
        while len(self.numbers) < number and time.monotonic() - began < SECONDS_TO_ANSWER:
            if not any(client.is_alive() for client in self._clients):
                return
            time.sleep(0.01)

    def all_numbers(self) -> list[int]:
        """Return the numbers of what was acknowledged, when the clients have stopped."""
        for client in self._clients:
            client.join()
        return self.numbers


def test_nothing_that_was_acknowledged_is_lost_when_the_service_is_killed(
    detector_file: Path, picture: bytes, tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    moments = random.Random(0)  # noqa: S311
    path = tmp_path / "feedback.sqlite"
    acknowledged: set[int] = set()
    for number in range(rounds(1, 40)):
        full = number % 4 == 3
        name = "kill: serve, while feedback is stored" + (" on a full disk" if full else "")
        words = [str(detector_file), "--feedback", str(path)]
        with (
            trials.trial(name, number),
            running_server(tmp_path, *words, before=few_bytes_a_file if full else None) as server,
        ):
            (image,) = score(server, picture).json()["images"]
            marks = Marks(server.url, image["sha256"])
            marks.wait_for(1)
            time.sleep(moments.uniform(0.0, 0.8))
            server.process.kill()
            acknowledged |= {*marks.all_numbers()}
            assert acknowledged
            assert acknowledged <= stored_in(path).keys()


def test_two_services_store_each_mark_once_in_one_file_also_when_one_is_killed(
    detector_file: Path, picture: bytes, tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    moments = random.Random(1)  # noqa: S311
    for number in range(rounds(1, 40)):
        path = tmp_path / f"{number}.sqlite"
        words = [str(detector_file), "--feedback", str(path)]
        with (
            trials.trial("kill: one of two services with one file of feedback", number),
            running_server(tmp_path, *words) as killed,
            running_in_thread(detector_file, path) as address,
        ):
            (image,) = score(killed, picture).json()["images"]
            httpx.post(f"{address}/v1/score", files={"files": ("a.png", picture)}, timeout=60)
            by_killed = Marks(killed.url, image["sha256"], "normal")
            by_other = Marks(address, image["sha256"], "anomalous")
            by_killed.wait_for(1)
            time.sleep(moments.uniform(0.0, 0.8))
            killed.process.kill()
            gone, until_then = by_killed.all_numbers(), len(by_other.numbers)
            by_other.wait_for(until_then + CLIENTS + 1)
            by_other.enough.set()
            stayed, stored = by_other.all_numbers(), stored_in(path)
            assert gone
            assert len(stayed) > until_then + CLIENTS  # it goes on
            assert len({*gone, *stayed}) == len(gone) + len(stayed)
            assert {stored[each] for each in gone} == {"normal"}
            assert {stored[each] for each in stayed} == {"anomalous"}
            # A mark that is stored but not acknowledged is one of those under way at the kill.
            assert len(stored) - len(gone) - len(stayed) <= CLIENTS


def running_in_thread(detector_file: Path, feedback: Path) -> AbstractContextManager[str]:
    service = Service({"tiny": detector_file}, ServiceSettings(decoders=1), feedback=feedback)
    return served_in_thread(service)


def few_bytes_a_file() -> None:
    """Let no file of this process grow beyond a few bytes, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FEW_BYTES, FEW_BYTES))


@pytest.fixture(scope="module")
def address(detector_file: Path) -> Iterator[str]:
    settings = ServiceSettings(decoders=2, decode_seconds=20.0, answer_seconds=120.0)
    with served_in_thread(Service({"tiny": detector_file}, settings)) as started:
        yield started


def test_hostile_pictures_cost_a_row_each_and_the_service_goes_on(
    address: str, picture: bytes, rounds: Rounds, trials: Trials
) -> None:
    pictures = {**valid_pictures(), **hostile_pictures()}
    pictures |= dict(mutated_pictures(rounds(100, 5_000), seed=3))
    names, wanted = list(pictures), None
    with httpx.Client(base_url=address, timeout=180) as client:
        for start in range(0, len(names), 16):
            some = names[start : start + 16]
            sent = [("files", (name, pictures[name])) for name in some]
            sent.append(("files", ("control.png", picture)))
            images = rows_of(client, sent, trials)
            for name, image in zip(some, images, strict=False):
                with trials.trial("fuzz: picture over HTTP", name):
                    assert (image["score"] is None) == (image["reason"] is not None)
                    assert image["reason"] is None or "\n" not in image["reason"]
            with trials.trial("fuzz: untouched picture over HTTP", start):
                wanted = wanted or images[-1]["score"]
                assert images[-1]["score"] == pytest.approx(wanted, rel=1e-5)
        assert client.get("/healthz").is_success


def rows_of(client: httpx.Client, sent: list[Any], trials: Trials) -> list[dict[str, Any]]:
    answer = client.post("/v1/score", files=sent)
    with trials.trial("fuzz: request of pictures over HTTP"):
        assert answer.status_code == 200, answer.text
    return list(answer.json()["images"])


def test_a_decoder_that_crashes_is_replaced_and_the_others_get_their_verdicts(
    detector_file: Path, picture: bytes, trials: Trials
) -> None:
    service = Service({"tiny": detector_file}, ServiceSettings(decoders=2))
    with served_in_thread(service) as address, httpx.Client(timeout=60) as client:
        sent = [("files", (f"{number}.png", picture)) for number in range(40)]
        killing = threading.Timer(0.02, kill_decoders, [service])
        killing.start()
        answer = client.post(f"{address}/v1/score", files=sent)
        killing.join()
        images = answer.json()["images"]
        with trials.trial("kill: decoder of a service"):
            assert len(images) == 40
            ended = "the decoder has ended while it read this"
            assert {image["reason"] for image in images} <= {None, ended}
            assert sum(image["reason"] is None for image in images) >= 38
        again = client.post(f"{address}/v1/score", files=sent).json()["images"]
        with trials.trial("kill: decoder of a service, afterwards"):
            assert sum(image["reason"] is None for image in again) >= 38
            assert service.decoders.replaced == 2


def kill_decoders(service: Service) -> None:
    for process in service.decoders._processes:
        os.kill(process._process.pid, signal.SIGSEGV)
