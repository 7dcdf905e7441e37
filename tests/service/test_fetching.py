"""Pictures by URL: only from origins that the service was told of, bounded in bytes and in time."""

import base64
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="oddone[remote] is not installed")

from starlette.testclient import TestClient

from oddone.cli.serve import serve
from oddone.errors import SettingsError
from oddone.service.fetching import LONGEST_URL, parse_origin

Start = Callable[..., TestClient]
LARGE = 300_000  # bytes
TOKEN = "a-token-of-some-length"  # noqa: S105


class _Pictures(http.server.BaseHTTPRequestHandler):
    """A server with one picture, and addresses at which things go wrong."""

    picture: bytes
    asked: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        self.asked.append((self.path, dict(self.headers)))
        if self.path.startswith("/photos/"):
            self.answer(200, self.picture)
        elif self.path == "/elsewhere":
            self.answer(302, b"", Location="/photos/a.png")
        elif self.path == "/large":
            self.answer(200, bytes(LARGE))
        elif self.path == "/packed":  # claims to be packed, and is not
            self.answer(200, self.picture, **{"Content-Encoding": "gzip"})
        elif self.path == "/slow":
            time.sleep(6)
            self.answer(200, self.picture)
        elif self.path == "/short":
            self.answer(200, self.picture, **{"Content-Length": "100000"})
        else:
            self.answer(404, b"nothing")

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Set-Cookie", "a=b")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _QuietServer(http.server.ThreadingHTTPServer):
    """One that says nothing of clients who hang up, as the service does where a file is large."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web(pictures: dict[str, bytes]) -> Iterator[tuple[str, type[_Pictures]]]:
    """Yield the origin of a server, and its class, which notes what it was asked for."""

    class Handler(_Pictures):
        picture = pictures["0.png"]
        asked: list[tuple[str, dict[str, str]]] = []  # noqa: RUF012

    with _QuietServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler
        server.shutdown()


def score(client: TestClient, *urls: str) -> list[dict[str, object]]:
    answer = client.post("/v1/score", json={"images": [{"url": url} for url in urls]})
    assert answer.status_code == 200, answer.text
    images: list[dict[str, object]] = answer.json()["images"]
    return images


def refusal(client: TestClient, url: str, address: str = "/v1/score") -> tuple[int, str]:
    answer = client.post(address, json={"images": [{"url": url}]})
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_a_picture_by_url_gets_the_verdict_of_the_same_file(
    start: Start, pictures: dict[str, bytes], web: tuple[str, type[_Pictures]]
) -> None:
    origin, _ = web
    client = start(fetch_from=[origin])
    data = base64.b64encode(pictures["0.png"]).decode()
    url = f"{origin}/photos/a%20b.png?size=1#part"
    sent = {"images": [{"name": "sent.png", "data": data}, {"url": url}]}
    same, fetched = client.post("/v1/score", json=sent).json()["images"]
    assert (same["name"], fetched["name"]) == ("sent.png", "a%20b.png")
    assert fetched["score"] == pytest.approx(same["score"], rel=1e-6)
    assert fetched["sha256"] == same["sha256"]
    assert client.post("/v1/explain", json={"images": [{"url": url}]}).status_code == 200


def test_what_is_asked_of_another_server_tells_nothing_of_this_one(
    start: Start, web: tuple[str, type[_Pictures]], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, handler = web
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # would fail
    client = start(fetch_from=[origin], token=TOKEN)
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    score(client, f"{origin}/photos/a.png?q=1#secret")
    score(client, f"{origin}/photos/a.png")
    paths, headers = zip(*handler.asked, strict=True)
    assert paths == ("/photos/a.png?q=1", "/photos/a.png")
    for each in headers:
        assert sorted(each) == ["Accept", "Accept-Encoding", "Host", "User-Agent"]
        assert each["Accept-Encoding"] == "identity"


def test_without_origins_no_url_is_fetched(
    client: TestClient, web: tuple[str, type[_Pictures]]
) -> None:
    origin, handler = web
    assert refusal(client, f"{origin}/photos/a.png") == (422, "no-urls")
    assert refusal(client, f"{origin}/photos/a.png", "/v1/explain") == (422, "no-urls")
    assert not handler.asked


def test_other_origins_are_refused_and_nothing_is_fetched(
    start: Start, web: tuple[str, type[_Pictures]]
) -> None:
    origin, handler = web
    client = start(fetch_from=[origin, "https://images.example.org"])
    host = origin.removeprefix("http://")
    port = host.partition(":")[2]
    for url in (
        f"http://localhost:{port}/photos/a.png",  # the same server by another name
        f"https://{host}/photos/a.png",
        f"http://images.example.org@{host}.example.net/",
        f"http://user:password@{host}/photos/a.png",
        f"{origin}.example.net/a.png",
        f"{origin}1/a.png",
        "http://images.example.org/a.png",
        "https://images.example.org:8443/a.png",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "//images.example.org/a.png",
        "photos/a.png",
        "http://[::1",
        "",
        f"{origin}/photos/{'a' * LONGEST_URL}",
    ):
        assert refusal(client, url) == (422, "url-refused"), url
    assert not handler.asked


def test_one_refused_url_keeps_the_others_from_being_fetched(
    start: Start, web: tuple[str, type[_Pictures]]
) -> None:
    origin, handler = web
    images = [{"url": f"{origin}/photos/a.png"}, {"url": "http://127.0.0.1:1/"}]
    assert start(fetch_from=[origin]).post("/v1/score", json={"images": images}).status_code == 422
    assert not handler.asked


def test_a_picture_that_cannot_be_fetched_has_a_reason_and_the_others_their_verdicts(
    start: Start, web: tuple[str, type[_Pictures]]
) -> None:
    origin, _ = web
    nobody = "http://127.0.0.1:1"
    client = start(
        fetch_from=[origin, nobody], file_bytes=100_000, request_bytes=200_000, fetch_seconds=3.0
    )
    paths = ("elsewhere", "large", "slow", "short", "missing", "photos/a.png", "packed")
    images = score(client, *(f"{origin}/{path}" for path in paths), f"{nobody}/a.png")
    assert [image["reason"] for image in images] == [
        "its address answers 302, a redirect",
        "it has over 100,000 bytes",
        "it was not there after 3 s",
        "its address cannot be reached",
        "its address answers 404",
        None,
        None,
        "its address cannot be reached",
    ]
    for image in images:
        assert (image["score"] is None) == (image["sha256"] is None) == bool(image["reason"])
    assert refusal(client, f"{origin}/missing", "/v1/explain") == (422, "not-fetched")


def test_all_pictures_of_a_request_have_a_bound_too(
    start: Start, web: tuple[str, type[_Pictures]]
) -> None:
    origin, _ = web
    client = start(fetch_from=[origin], file_bytes=LARGE, request_bytes=2 * LARGE)
    reasons = [image["reason"] for image in score(client, *[f"{origin}/large"] * 3)]
    assert f"the pictures of the request have over {2 * LARGE:,} bytes" in reasons


def test_bytes_that_may_come_are_held_like_those_of_a_request(
    start: Start, web: tuple[str, type[_Pictures]]
) -> None:
    origin, handler = web
    limits = {"file_bytes": 100_000, "request_bytes": 100_000, "queue_bytes": 100_050}
    client = start(fetch_from=[origin], **limits)
    assert refusal(client, f"{origin}/photos/a.png") == (429, "queue-full")
    assert not handler.asked
    wider = start(fetch_from=[origin], **{**limits, "queue_bytes": 101_000})
    for _ in range(3):  # what was held is given back
        assert score(wider, f"{origin}/photos/a.png")[0]["reason"] is None


def test_the_description_offers_urls_where_they_are_fetched(
    start: Start, web: tuple[str, type]
) -> None:
    def ways(client: TestClient) -> list[str]:
        schema = client.get("/openapi.json").json()["paths"]["/v1/score"]["post"]["requestBody"]
        images = schema["content"]["application/json"]["schema"]["properties"]["images"]
        return [way["required"][0] for way in images["items"]["oneOf"]]

    assert ways(start()) == ["data"]
    assert ways(start(fetch_from=[web[0]])) == ["data", "url"]


@pytest.mark.parametrize("picture", [{}, {"url": "http://a.org/", "data": ""}, {"url": 1}])
def test_a_picture_is_sent_in_one_way(client: TestClient, picture: dict[str, object]) -> None:
    answer = client.post("/v1/score", json={"images": [picture]})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:oddone:problem:invalid")


@pytest.mark.parametrize("word", ["https://images.example.org", "http://10.0.0.7:9000/"])
def test_an_origin_is_a_scheme_a_host_and_a_port(word: str) -> None:
    assert str(parse_origin(word)) == word.rstrip("/")


@pytest.mark.parametrize(
    "word",
    [
        "images.example.org",
        "ftp://a.org",
        "https://a.org/photos",
        "https://b@a.org",
        "https://",
        "*",
        "",
    ],
)
def test_what_is_no_origin_is_one_line(word: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="write an origin"):
        serve(str(tmp_path / "no.oddone"), fetch_from=(word,))


def test_origins_are_the_same_however_they_are_written() -> None:
    assert parse_origin("https://a.org") == parse_origin("https://a.org/")
    assert parse_origin("https://a.org") == parse_origin("HTTPS://A.org:443")
    assert parse_origin("https://a.org") != parse_origin("http://a.org:443")
