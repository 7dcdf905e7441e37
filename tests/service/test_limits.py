"""What a service refuses, and how: problems with a status, a detail, and nothing of the server."""

import asyncio
import base64
import gc
import math
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from oddone.errors import SettingsError
from oddone.service.admission import Admission
from oddone.service.app import make_app
from oddone.service.problems import MEDIA_TYPE, ProblemError
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

TOKEN = "a-token-of-some-length"  # noqa: S105
Start = Callable[..., TestClient]


def check_problem(answer: object, status: int, kind: str) -> str:
    assert answer.status_code == status, answer.text  # type: ignore[attr-defined]
    assert answer.headers["content-type"] == MEDIA_TYPE  # type: ignore[attr-defined]
    problem = answer.json()  # type: ignore[attr-defined]
    assert list(problem) == ["type", "title", "status", "detail"]
    assert problem["status"] == status
    assert problem["type"] == f"urn:oddone:problem:{kind}"
    assert problem["detail"]
    return str(problem["detail"])


def test_every_error_is_a_problem(client: TestClient) -> None:
    json = {"Content-Type": "application/json"}
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    post = client.post
    check_problem(client.get("/nothing"), 404, "not-found")
    check_problem(client.get("/v1/score"), 405, "method-not-allowed")
    check_problem(post("/v1/score", content=b"x"), 415, "media-type")
    check_problem(post("/v1/score", content=b"{", headers=json), 400, "malformed")
    check_problem(post("/v1/score", content=b"[]", headers=json), 422, "invalid")
    check_problem(post("/v1/score", json={"images": []}), 422, "no-images")
    check_problem(post("/v1/score", json={"images": [{"data": "no base64!"}]}), 422, "invalid")
    check_problem(post("/v1/score", content=b"junk", headers=form), 400, "malformed")
    no_boundary = {"Content-Type": "multipart/form-data"}
    check_problem(post("/v1/score", content=b"junk", headers=no_boundary), 400, "malformed")
    check_problem(post("/v1/score", data={"a": "b"}, files={}), 415, "media-type")
    check_problem(post("/v1/feedback", json={"sha256": "x", "said": "odd"}), 422, "invalid")
    check_problem(post("/v1/feedback", content=b"{", headers=json), 422, "invalid")


def test_whatever_is_raised_is_a_problem_and_is_logged(
    start: Start, pictures: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    def draw(*_: object) -> bytes:
        raise RuntimeError("/secret/path")

    files, headers = {"files": ("0.png", pictures["0.png"])}, {"Accept": "image/png"}
    client = start(draw=draw)
    answer = client.post("/v1/explain", files=files, headers=headers)
    assert "secret" not in check_problem(answer, 500, "internal")
    assert "/secret/path" in caplog.text
    assert client.post("/v1/score", files=files).status_code == 200


def test_bytes_and_files_are_limited(start: Start) -> None:
    client = start(file_bytes=2000, request_bytes=8000, files=3)
    large = {"files": ("large.png", bytes(2001))}
    assert "2,001 bytes" in check_problem(
        client.post("/v1/score", files=large), 413, "file-too-large"
    )
    check_problem(
        client.post("/v1/score", files={"files": ("x", bytes(9000))}), 413, "request-too-large"
    )
    four = [("files", ("a.png", b"a"))] * 4
    check_problem(client.post("/v1/score", files=four), 413, "too-many-files")
    five = {"images": [{"data": ""}] * 5}
    check_problem(client.post("/v1/score", json=five), 413, "too-many-files")
    endless = (bytes(1000) for _ in range(20))  # without a length
    json = {"Content-Type": "application/json"}
    answer = client.post("/v1/score", content=endless, headers=json)
    check_problem(answer, 413, "request-too-large")
    endless = (bytes(1000) for _ in range(20))
    answer = client.post("/v1/feedback", content=endless, headers=json)
    check_problem(answer, 413, "request-too-large")
    check_problem(client.post("/v1/feedback", content=b"{}"), 415, "media-type")


def test_many_pixels_are_a_reason(start: Start, pictures: dict[str, bytes]) -> None:
    client = start(pixels=200)  # the pictures have 256
    (image,) = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).json()[
        "images"
    ]
    assert image["reason"] == "16 x 16 pixels is too large"


def test_a_full_queue_is_429_with_a_time_to_come_back(
    start: Start, pictures: dict[str, bytes]
) -> None:
    client = start(queue_images=4, files=4)
    many = [("files", (name, content)) for name, content in list(pictures.items())[:4]]

    def post(_: int) -> object:
        return client.post("/v1/score", files=many)

    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(post, range(16)))
    statuses = {answer.status_code for answer in answers}  # type: ignore[attr-defined]
    assert statuses == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)  # type: ignore[attr-defined]
    check_problem(refused, 429, "queue-full")
    assert int(refused.headers["retry-after"]) >= 1  # type: ignore[attr-defined]
    assert client.post("/v1/score", files=many).status_code == 200


def test_admission_counts_and_gives_back() -> None:
    limits = ServiceSettings(queue_images=64, queue_bytes=2**27, queue_seconds=1000.0)
    admission = Admission(limits)
    with admission.request(2**26) as first, admission.request(2**26):
        first.add_images(61)
        assert (admission.images, admission.bytes) == (63, 2**27)
        with pytest.raises(ProblemError, match="exceed 64"):
            first.add_images(2)
        with pytest.raises(ProblemError, match="bytes"), admission.request(1):
            pass
    assert (admission.images, admission.bytes) == (0, 0)


def slow_admission(monkeypatch: pytest.MonkeyPatch) -> Admission:
    """Return one that has seen 300 images of a second each, and then a clock that stands still."""
    clock = [0.0]
    monkeypatch.setattr("oddone.service.admission.time.monotonic", lambda: clock[0])
    admission = Admission(ServiceSettings(queue_seconds=2.0))
    for _ in range(300):
        with admission.request(1):
            clock[0] += 1.0
    return admission


def test_who_would_wait_for_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    admission = slow_admission(monkeypatch)
    with admission.request(1), admission.request(1), admission.request(1):
        with pytest.raises(ProblemError, match="too long already") as refused, admission.request(1):
            pass
        assert refused.value.headers == {"Retry-After": "2"}
    with admission.request(1) as alone:
        alone.add_images(1)  # who is there first may send many


def test_what_is_refused_or_only_said_does_not_count_as_a_fast_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admission = slow_admission(monkeypatch)
    for _ in range(1000):
        with pytest.raises(ProblemError, match="no picture"), admission.request(1):
            raise ProblemError(422, "no-images", "the request has no picture")
        with admission.request(1, images=0):  # feedback
            pass
    with (
        admission.request(1),
        admission.request(1),
        admission.request(1),
        pytest.raises(ProblemError, match="too long already"),
        admission.request(1),
    ):
        pass


def test_a_service_whose_queue_would_take_too_long_is_not_ready(start: Start) -> None:
    client = start(queue_seconds=0.01)
    admission = client.app.state.service.admission  # type: ignore[attr-defined]
    assert client.get("/readyz").status_code == 200
    with admission.request(1):
        answer = client.get("/readyz")
    check_problem(answer, 503, "queue-full")
    assert int(answer.headers["retry-after"]) >= 1
    assert client.get("/readyz").status_code == 200


def test_an_answer_that_takes_too_long_is_503(start: Start, pictures: dict[str, bytes]) -> None:
    client = start(answer_seconds=0.001)
    answer = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])})
    check_problem(answer, 503, "too-slow")


def test_a_client_that_sends_slowly_is_408(start: Start) -> None:
    client = start(upload_seconds=0.05)

    async def slow_receive() -> dict[str, object]:
        await asyncio.sleep(0.2)
        return {"type": "http.request", "body": b"x", "more_body": True}

    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/score",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"x")],
    }
    began = time.monotonic()
    asyncio.run(client.app(scope, slow_receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408
    assert time.monotonic() - began < 2


def test_only_who_has_the_token_is_served(start: Start, pictures: dict[str, bytes]) -> None:
    client = start(token=TOKEN)
    files = {"files": ("0.png", pictures["0.png"])}
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic a-token-of-some-length"},
        {"Authorization": "Bearer a-token-of-some-lengthX"},
    ):
        answer = client.post("/v1/score", files=files, headers=headers)
        check_problem(answer, 401, "token")
        assert answer.headers["www-authenticate"] == "Bearer"
    right = {"Authorization": "Bearer a-token-of-some-length"}
    assert client.post("/v1/score", files=files, headers=right).status_code == 200
    check_problem(client.get("/metrics"), 401, "token")
    check_problem(client.get("/v1/model"), 401, "token")
    assert client.get("/").status_code == client.get("/healthz").status_code == 200


def test_pages_of_others_can_neither_ask_nor_read(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    files, elsewhere = {"files": ("0.png", pictures["0.png"])}, {"Origin": "https://evil.example"}
    check_problem(client.post("/v1/score", files=files, headers=elsewhere), 403, "other-origin")
    for origin in ("null", "http://[", "http://testserver.evil.example"):
        check_problem(client.get("/v1/model", headers={"Origin": origin}), 403, "other-origin")
    own = client.post("/v1/score", files=files, headers={"Origin": "http://testserver"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


def test_every_answer_has_the_headers_that_browsers_need(client: TestClient) -> None:
    for path in ("/", "/v1/model", "/nothing", "/docs"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_pages_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/page.css", "/page.js", "/docs", "/docs.js"):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert text
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text
        assert "onclick" not in text


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match="raise request_bytes"):
        ServiceSettings(file_bytes=2**30)
    with pytest.raises(SettingsError, match="raise queue_bytes"):
        ServiceSettings(request_bytes=2**30)
    with pytest.raises(SettingsError, match="files=0: choose a number above 0"):
        ServiceSettings(files=0)
    with pytest.raises(SettingsError, match="decoders=-1: choose 0 for one per core, or more"):
        ServiceSettings(decoders=-1)
    with pytest.raises(SettingsError, match="queue_seconds=nan: choose a number"):
        ServiceSettings(queue_seconds=math.nan)


def test_base64_is_not_decoded_beyond_the_limit(start: Start) -> None:
    client = start(file_bytes=1000, request_bytes=8000)
    data = base64.b64encode(bytes(1500)).decode()
    answer = client.post("/v1/score", json={"images": [{"data": data}]})
    check_problem(answer, 413, "file-too-large")


def test_a_service_without_feedback_says_how_to_have_it(start: Start) -> None:
    client = start()
    answer = client.post("/v1/feedback", json={"sha256": "0" * 64, "said": "normal"})
    assert "--feedback FILE" in check_problem(answer, 404, "no-feedback")


def test_a_service_that_has_stopped_leaves_nothing_in_memory(tiny_detector: Path) -> None:
    service = Service({"tiny": tiny_detector}, ServiceSettings(decoders=1))
    remembered = weakref.ref(service)
    with TestClient(make_app(service)) as client:
        client.get("/v1/model").raise_for_status()
    del service, client
    gc.collect()
    assert remembered() is None


def test_a_service_that_has_stopped_frees_its_detectors_at_once(
    tiny_detector: Path, pictures: dict[str, bytes]
) -> None:
    service = Service({"tiny": tiny_detector}, ServiceSettings(decoders=1))
    detector = weakref.ref(service.detectors.find("tiny").detector)
    gc.disable()  # as if the next collection were long in coming
    try:
        with TestClient(make_app(service)) as client:
            client.post("/v1/score", files={"files": pictures["0.png"]}).raise_for_status()
        assert detector() is None
    finally:
        gc.enable()
