import errno
import gzip
import hashlib
import io
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from oddone.data import download
from oddone.data.download import OFFICIAL, OfficialFile, fetch, get
from oddone.errors import DataError

CONTENT = bytes(range(256)) * 4096
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Host(ThreadingHTTPServer):
    """A host of one content under every name, with the faults that a test asks for."""

    content = CONTENT
    cuts: tuple[int, ...] = ()
    """After how many bytes the first, second, ... answer is cut."""
    statuses: tuple[int, ...] = ()
    """The status of the first, second, ... answer; then 200."""
    claimed_length: int | None = None
    says_length = True
    encoding: str | None = None
    location: str | None = None
    """Where requests for anything but this are sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing when the other side has closed the connection early."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        host = self.server
        attempt = len(host.asked)
        host.asked.append(self.path)
        if host.location and not host.location.endswith(self.path):
            self._answer(302, b"", Location=host.location)
        elif attempt < len(host.statuses):
            self._answer(host.statuses[attempt], b"")
        else:
            encoding = {"Content-Encoding": host.encoding} if host.encoding else {}
            cut = host.cuts[attempt] if attempt < len(host.cuts) else None
            self._answer(200, host.content, cut, **encoding)

    def _answer(self, status: int, body: bytes, cut: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if self.server.says_length:
            self.send_header("Content-Length", str(self.server.claimed_length or len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that were waited between attempts; nobody waits for them here."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> Iterator[Host]:  # noqa: ARG001
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Host() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def official(host: Host) -> OfficialFile:
    return OfficialFile(f"{host.address}/pictures.tar.gz", MD5)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_says_what_to_do(error: DataError, official: OfficialFile, folder: Path) -> None:
    for fact in (official.name, official.url, official.md5, str(folder), "some other way"):
        assert fact in str(error)


def test_a_file_is_downloaded_whole_with_its_progress(
    official: OfficialFile, tmp_path: Path
) -> None:
    seen: list[tuple[int, int, str]] = []
    path = fetch(official, tmp_path / "new" / "folder", progress=lambda *now: seen.append(now))
    assert path == tmp_path / "new" / "folder" / "pictures.tar.gz"
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["pictures.tar.gz"]
    assert len(seen) > 1
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {(total, what) for _, total, what in seen} == {(len(CONTENT), "pictures.tar.gz")}
    assert seen[-1][0] == len(CONTENT)


def test_a_relative_folder_stays_relative_and_a_tilde_in_it_is_a_tilde(
    official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fetch(official, Path("~")) == Path("~/pictures.tar.gz")
    assert names(tmp_path / "~") == ["pictures.tar.gz"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o777, 0o644), (0o700, 0o600)])
def test_who_may_read_the_folder_may_read_the_file(
    official: OfficialFile, tmp_path: Path, folder_mode: int, file_mode: int
) -> None:
    tmp_path.chmod(folder_mode)
    assert stat.S_IMODE(fetch(official, tmp_path).stat().st_mode) == file_mode


def test_the_log_of_pooch_is_silent_during_a_download_only(
    official: OfficialFile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = pooch.get_logger()
    log.addHandler(caplog.handler)
    log.info("before")
    fetch(official, tmp_path)
    log.info("after")
    log.removeHandler(caplog.handler)
    assert caplog.messages == ["before", "after"]


def test_a_file_that_is_there_and_whole_is_not_fetched_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / official.name).write_bytes(CONTENT)
    assert fetch(official, tmp_path) == tmp_path / official.name
    assert host.asked == []


def test_a_damaged_file_that_is_there_is_fetched_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / official.name).write_bytes(CONTENT[:-1])
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.asked == ["/pictures.tar.gz"]


def test_a_cut_connection_is_tried_again_from_the_start(
    host: Host, official: OfficialFile, tmp_path: Path, waits: list[float]
) -> None:
    host.cuts = (300_000, 5)
    seen: list[int] = []
    path = fetch(official, tmp_path, progress=lambda done, _total, _what: seen.append(done))
    assert path.read_bytes() == CONTENT
    assert len(host.asked) == 3
    assert len(waits) == 2
    assert max(seen) == len(CONTENT)
    assert names(tmp_path) == [official.name]


def test_a_connection_cut_again_and_again_is_an_error_that_leaves_nothing(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.cuts = (1000,) * 10
    with pytest.raises(DataError, match="1000 bytes read") as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert len(host.asked) == 1 + download.RETRIES
    assert names(tmp_path) == []


def test_an_interrupted_download_leaves_nothing(official: OfficialFile, tmp_path: Path) -> None:
    def interrupt(done: int, _total: int, _what: str) -> None:
        assert 0 < done < len(CONTENT)
        assert official.name not in names(tmp_path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(official, tmp_path, progress=interrupt)
    assert names(tmp_path) == []


def test_a_host_that_does_not_say_the_length_is_believed_when_the_checksum_is_right(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.says_length = False
    seen: list[tuple[int, int, str]] = []
    path = fetch(official, tmp_path, progress=lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), 0, official.name)


def test_a_packed_file_stays_packed_when_the_host_calls_it_encoded(
    host: Host, tmp_path: Path
) -> None:
    host.content, host.encoding = gzip.compress(CONTENT), "x-gzip"
    md5 = hashlib.md5(host.content, usedforsecurity=False).hexdigest()
    path = fetch(OfficialFile(f"{host.address}/pictures.tar.gz", md5), tmp_path)
    assert path.read_bytes() == host.content


def test_a_wrong_checksum_is_named_beside_the_right_one_and_leaves_nothing(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.content = CONTENT[::-1]
    wrong = hashlib.md5(host.content, usedforsecurity=False).hexdigest()
    with pytest.raises(DataError, match=f"expected md5:{MD5} but got {wrong}") as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert names(tmp_path) == []


def test_a_wrong_checksum_leaves_a_file_that_was_there_alone(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.content = CONTENT[::-1]
    (tmp_path / official.name).write_bytes(b"damaged")
    with pytest.raises(DataError, match="does not match"):
        fetch(official, tmp_path)
    assert (tmp_path / official.name).read_bytes() == b"damaged"


def test_a_refused_connection_says_which_file_to_put_where(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.server_close()
    with pytest.raises(DataError, match="refused") as caught:
        fetch(official, tmp_path)
    assert "HTTPConnectionPool" not in str(caught.value)
    assert_says_what_to_do(caught.value, official, tmp_path)


def test_a_file_that_the_host_does_not_have_is_to_be_put_there_by_hand(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.statuses = (404,) * 10
    with pytest.raises(DataError, match="404 Client Error: Not Found") as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert names(tmp_path) == []


def test_a_host_that_is_overloaded_for_a_moment_is_asked_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.statuses = (503,)
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert len(host.asked) == 2


def test_a_host_that_falls_silent_is_not_waited_for_for_ever(
    official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.05)
    silence = threading.Event()
    monkeypatch.setattr(Answer, "do_GET", lambda _: silence.wait(10))
    with pytest.raises(DataError, match="timed out") as caught:
        fetch(official, tmp_path)
    silence.set()
    assert_says_what_to_do(caught.value, official, tmp_path)


def test_more_than_a_gigabyte_is_refused_before_it_is_read_and_not_tried_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.claimed_length = 10**9 + 1
    seen: list[int] = []
    with pytest.raises(DataError, match="1,000,000,001 bytes .* over 1,000,000,000") as caught:
        fetch(official, tmp_path, progress=lambda done, _total, _what: seen.append(done))
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert seen == []
    assert len(host.asked) == 1
    assert names(tmp_path) == []


def test_a_host_that_says_no_length_cannot_fill_the_disk(
    host: Host, official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.says_length = False
    monkeypatch.setattr(download, "LARGEST_BYTES", 300_000)
    seen: list[int] = []
    with pytest.raises(DataError, match="no official file has over 300,000"):
        fetch(official, tmp_path, progress=lambda done, _total, _what: seen.append(done))
    assert 0 < max(seen) <= 300_000
    assert len(host.asked) == 1
    assert names(tmp_path) == []


def test_a_redirection_to_http_is_followed(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.location = f"{host.address}/moved/pictures"
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.asked == ["/pictures.tar.gz", "/moved/pictures"]
    assert names(tmp_path) == [official.name]


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/file"])
def test_neither_an_address_nor_a_redirection_leads_away_from_http(
    host: Host, official: OfficialFile, tmp_path: Path, address: str
) -> None:
    with pytest.raises(DataError, match=f"No connection adapters .* '{address}'"):
        fetch(OfficialFile(address, MD5), tmp_path)
    host.location = address
    with pytest.raises(DataError, match=f"No connection adapters .* '{address}'") as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="folder") as caught:
        fetch(official, tmp_path / "file" / "folder")
    assert_says_what_to_do(caught.value, official, tmp_path / "file" / "folder")
    assert host.asked == []


def test_a_folder_that_cannot_be_written_to_is_named(
    host: Host, official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:  # a folder without permissions would not stop root
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    with pytest.raises(DataError, match=os.strerror(errno.EACCES)) as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert host.asked == []


class FullDisk(io.BytesIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_an_error_that_leaves_nothing(
    host: Host, official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", lambda *_: FullDisk())
    with pytest.raises(DataError, match=os.strerror(errno.ENOSPC)) as caught:
        fetch(official, tmp_path)
    assert_says_what_to_do(caught.value, official, tmp_path)
    assert len(host.asked) == 1
    assert names(tmp_path) == []


def test_get_fetches_all_files_of_a_dataset(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tuple(
        OfficialFile(f"{host.address}/numbers/{official.name}", MD5)
        for official in OFFICIAL["svhn"]
    )
    monkeypatch.setitem(OFFICIAL, "svhn", files)
    paths = get("svhn", tmp_path)
    assert paths == (tmp_path / "train_32x32.mat", tmp_path / "test_32x32.mat")
    assert all(path.read_bytes() == CONTENT for path in paths)
    assert host.asked == ["/numbers/train_32x32.mat", "/numbers/test_32x32.mat"]


def test_get_answers_an_unknown_name_with_the_choices(
    as_shipped: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError, match="choose cifar10, cifar100, svhn"):
        get("imagenet", tmp_path)  # type: ignore[arg-type]


def test_the_official_files_have_their_names() -> None:
    published = [official.name for files in OFFICIAL.values() for official in files]
    assert published == [
        "cifar-10-python.tar.gz",
        "cifar-100-python.tar.gz",
        "train_32x32.mat",
        "test_32x32.mat",
    ]
