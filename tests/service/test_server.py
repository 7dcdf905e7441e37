"""The whole command: a file that changes, clients that wait, signals."""

import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from running_server import RunningServer, running_server, score

from oddone.detector import Detector

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGHUP")


@pytest.fixture(scope="module")
def served_file(tiny_detector: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a detector that may be changed while it is served."""
    path = tmp_path_factory.mktemp("changing") / "garments.oddone"
    shutil.copy(tiny_detector, path)
    return path


@pytest.fixture(scope="module")
def server(served_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    words = [f"garments={served_file}", "--header-seconds", "3", "--watch-seconds", "0.2"]
    with running_server(folder, *words) as started:
        yield started


def detector_of(server: RunningServer) -> dict[str, object]:
    (detector,) = httpx.get(f"{server.url}/v1/model", timeout=60).json()["detectors"]
    return dict(detector)


def wait_until(condition: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 60
        time.sleep(0.05)


def test_a_client_that_never_sends_its_headers_is_hung_up_on(server: RunningServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    began = time.monotonic()
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            for _ in range(2)
        ]
        connections[1].sendall(b"POST /v1/score HTTP/1.1\r\nHost:")
        for connection in connections:
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b""
    assert time.monotonic() - began < 20


def test_a_new_file_is_taken_and_a_broken_one_refused_without_losing_a_request(
    server: RunningServer, served_file: Path, pictures: dict[str, bytes]
) -> None:
    content, first = pictures["0.png"], detector_of(server)["sha256"]
    statuses: list[int] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            statuses.append(score(server, content).status_code)
            time.sleep(0.1)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    detector = Detector.load(served_file)
    newer = served_file.with_name("newer.oddone")
    _with_threshold(detector, 0.2).save(newer)
    newer.replace(served_file)
    wait_until(lambda: detector_of(server)["sha256"] != first)
    second = detector_of(server)["sha256"]
    broken = served_file.with_name("broken.oddone")
    broken.write_bytes(served_file.read_bytes()[:-1000])
    broken.replace(served_file)
    wait_until(lambda: detector_of(server)["refused"] is not None)
    assert detector_of(server)["sha256"] == second
    assert str(served_file.parent) not in str(detector_of(server))
    assert "the new file is refused, the old one stays" in server.complained()
    detector.save(served_file)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: detector_of(server)["sha256"] == first)
    assert detector_of(server)["refused"] is None
    stop.set()
    asking.join()
    assert len(statuses) > 3
    assert set(statuses) == {200}


def _with_threshold(detector: Detector, false_alarms: float) -> Detector:
    calibration = detector.calibration
    assert calibration is not None
    return replace(detector, calibration=replace(calibration, false_alarms=false_alarms))


def test_a_service_that_is_told_to_end_answers_what_it_has(
    server: RunningServer, pictures: dict[str, bytes]
) -> None:
    answers: list[httpx.Response] = []
    content = pictures["0.png"]
    many = [("files", (f"{number}.png", content)) for number in range(60)]

    def ask() -> None:
        answers.append(httpx.post(f"{server.url}/v1/score", files=many, timeout=60))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(
        lambda: (
            "oddone_waiting_images 60.0" in httpx.get(f"{server.url}/metrics").text or bool(answers)
        )
    )
    server.process.send_signal(signal.SIGTERM)
    asking.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["images"]) == 60
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.complained()
