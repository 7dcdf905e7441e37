"""A service that fetches pictures from a server which lies, drips, stops and hangs up."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from corpus_images import hostile_pictures
from hostile_origin import answer_with, broken_answers, hostile_origin, mutated_answers
from PIL import Image
from trials import Rounds, Trials

from runs import tiny_source
from small_detector import fitted

pytest.importorskip("fastapi", reason="oddone[service] is not installed")
pytest.importorskip("aiohttp", reason="oddone[remote] is not installed")
sys.path.append(str(Path(__file__).parent.parent / "service"))

import httpx
from running_server import running_server, served_in_thread

from oddone.service.fetching import CONNECTIONS, PictureFetcher
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

FETCH_SECONDS = 2.0
SECONDS = 20.0
"""In which a request is answered, on a busy machine too."""
AT_ONCE = CONNECTIONS - 1
"""So that the picture nothing is wrong with has a connection, whatever becomes of the others."""
CLIENTS = 4
SETTINGS = ServiceSettings(
    decoders=1,
    files=AT_ONCE + 1,
    file_bytes=200_000,
    request_bytes=1_000_000,
    queue_bytes=5_000_000,
    fetch_seconds=FETCH_SECONDS,
    queue_seconds=60.0,  # slow pictures shall not keep the next ones out
)
RIGHT = ("chunks", "cookies", "two-answers", "packed")
"""Answers that are odd, and whose picture is there all the same."""


@pytest.fixture(scope="module")
def picture() -> bytes:
    file = BytesIO()
    Image.fromarray(tiny_source(images=1).images[0].transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def answers(picture: bytes) -> dict[str, bytes]:
    """Return what the server answers; tests add to it."""
    return {"control": answer_with(picture), **broken_answers(picture)}


class Client:
    """Asks a service for the verdicts of pictures that are at a hostile server."""

    def __init__(self, address: str, origin: str) -> None:
        self.address, self.origin = address, origin

    def score(self, *paths: str) -> list[dict[str, Any]]:
        """Return what is said of pictures, of which the last is one that nothing is wrong with."""
        images = [{"url": f"{self.origin}/{path}"} for path in [*paths, "whole/control"]]
        began = time.monotonic()
        answer = httpx.post(f"{self.address}/v1/score", json={"images": images}, timeout=60)
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - began < SECONDS
        rows: list[dict[str, Any]] = answer.json()["images"]
        assert len(rows) == len(images)
        for row in rows:
            assert (row["score"] is None) == (row["reason"] is not None)
            assert row["reason"] is None or "\n" not in row["reason"]
        assert rows[-1]["reason"] is None
        return rows


@pytest.fixture(scope="module")
def client(answers: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("served") / "tiny.oddone"
    fitted().save(path)
    with hostile_origin(answers) as origin:
        service = Service({"tiny": path}, SETTINGS, fetcher=PictureFetcher([origin], SETTINGS))
        with served_in_thread(service) as address:
            yield Client(address, origin)
        assert (service.admission.bytes, service.admission.images) == (0, 0)  # all was given back


def in_parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), AT_ONCE):
        yield names[start : start + AT_ONCE]


def test_each_answer_that_breaks_the_rules_costs_one_picture(
    client: Client, picture: bytes, trials: Trials
) -> None:
    (wanted,) = client.score()
    for way in ("whole", "reset", "silent"):
        for names in in_parts(list(broken_answers(picture))):
            rows = client.score(*(f"{way}/{name}" for name in names))
            with trials.trial("fuzz: picture by URL beside broken answers", (way, names)):
                assert rows[-1]["score"] == pytest.approx(wanted["score"], rel=1e-5)
            for name, row in zip(names, rows, strict=False):
                with trials.trial("fuzz: broken answer to a fetch", (way, name)):
                    if way == "whole" and name in RIGHT:
                        assert row["score"] is not None
                    if row["score"] is not None:  # no other verdict than that of the picture
                        assert row["score"] == pytest.approx(wanted["score"], rel=1e-5)


def test_answers_changed_at_random_cost_one_picture_each(
    client: Client, answers: dict[str, bytes], picture: bytes, rounds: Rounds, trials: Trials
) -> None:
    (wanted,) = client.score()
    mutants = dict(mutated_answers(picture, rounds(64, 5_000), seed=5))
    answers |= mutants
    for names in in_parts(list(mutants)):
        with trials.trial("fuzz: mutated answers to fetches", names):
            rows = client.score(*(f"whole/{name}" for name in names))
            assert rows[-1]["score"] == pytest.approx(wanted["score"], rel=1e-5)


def test_hostile_pictures_by_url_cost_one_row_each(
    client: Client, answers: dict[str, bytes], trials: Trials
) -> None:
    pictures = {name: answer_with(content) for name, content in hostile_pictures().items()}
    answers |= pictures
    for names in in_parts(list(pictures)):
        with trials.trial("fuzz: hostile pictures by URL", names):
            client.score(*(f"whole/{name}" for name in names))


def test_who_asks_for_slow_pictures_does_not_keep_the_others_waiting(
    client: Client, rounds: Rounds, trials: Trials
) -> None:
    for number in range(rounds(1, 20)):
        slow = [
            threading.Thread(target=client.score, args=["dripping/control"] * AT_ONCE)
            for _ in range(CLIENTS)
        ]
        for each in slow:
            each.start()
        with trials.trial("concurrency: pictures that drip in beside others", number):
            began = time.monotonic()
            client.score()
            assert time.monotonic() - began < FETCH_SECONDS + SECONDS / 2
        for each in slow:
            each.join()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's signals")
def test_a_service_that_is_killed_while_it_fetches_starts_again_and_says_the_same(
    client: Client, tmp_path: Path, rounds: Rounds, trials: Trials
) -> None:
    path = tmp_path / "tiny.oddone"
    fitted().save(path)
    (wanted,) = client.score()
    for number in range(rounds(1, 20)):
        with (
            trials.trial("kill: serve, while pictures are fetched", number),
            running_server(tmp_path, str(path), "--fetch-from", client.origin) as server,
        ):
            asking = Client(server.url, client.origin)
            assert asking.score()[0]["score"] == pytest.approx(wanted["score"], rel=1e-5)
            failed = threading.Event()
            waiting = threading.Thread(target=note_failure, args=[asking, failed])
            waiting.start()
            time.sleep(FETCH_SECONDS / 2)
            server.process.kill()
            waiting.join(SECONDS)
            assert failed.is_set()


def note_failure(asking: Client, failed: threading.Event) -> None:
    """Ask for a picture that takes long, and note that no answer came."""
    try:
        asking.score("dripping/control")
    except httpx.TransportError:
        failed.set()
