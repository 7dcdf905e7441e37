import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from oddone.data import download
from oddone.data.download import OFFICIAL, OfficialFile, fetch, get
from oddone.errors import DataError

CONTENT = bytes(range(256)) * 4096
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Host(ThreadingHTTPServer):
    """A host of one content under every name, with the faults that a test asks for."""

    content = CONTENT
    knows_ranges = True
    cuts: tuple[int, ...] = ()
    """After how many bytes the first, second, ... answer is cut."""
    status = 200
    claimed_length: int | None = None
    says_length = True
    location: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.ranges: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        host = self.server
        asked = self.headers["Range"]
        host.ranges.append(asked)
        if host.status != 200 or host.location:
            self.send_response(302 if host.location else host.status)
            self.send_header("Content-Length", "0")
            if host.location:
                self.send_header("Location", host.location)
            self.end_headers()
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and host.knows_ranges else 0
        body = host.content[start:]
        if start and not body:
            self.send_response(416)
        elif start:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-/{len(host.content)}")
        else:
            self.send_response(200)
        if host.says_length:
            self.send_header("Content-Length", str(host.claimed_length or len(body)))
        self.end_headers()
        attempt = len(host.ranges) - 1
        self.wfile.write(body[: host.cuts[attempt]] if attempt < len(host.cuts) else body)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
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


def test_a_file_is_downloaded_whole_with_its_progress(
    official: OfficialFile, tmp_path: Path
) -> None:
    seen: list[tuple[int, int, str]] = []
    path = fetch(official, tmp_path / "new" / "folder", progress=lambda *now: seen.append(now))
    assert path == tmp_path / "new" / "folder" / "pictures.tar.gz"
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["pictures.tar.gz"]
    assert seen[-1] == (len(CONTENT), len(CONTENT), "pictures.tar.gz")
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


def test_a_file_that_is_there_is_not_fetched_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / official.name).write_bytes(CONTENT)
    fetch(official, tmp_path)
    assert host.ranges == []


def test_a_damaged_file_that_is_there_is_fetched_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / official.name).write_bytes(CONTENT[:-1])
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.ranges == [None]


def test_a_cut_connection_is_continued_where_it_was_cut(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.cuts = (300_000, 5)
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.ranges == [None, "bytes=300000-", "bytes=300005-"]
    assert names(tmp_path) == [official.name]


def test_an_interrupted_download_is_continued_by_the_next_command(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / "pictures.tar.gz.part").write_bytes(CONTENT[:1000])
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.ranges == ["bytes=1000-"]


def test_a_part_that_was_whole_only_gets_its_name(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    (tmp_path / "pictures.tar.gz.part").write_bytes(CONTENT)
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_host_without_ranges_starts_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.cuts, host.knows_ranges = (300_000,), False
    assert fetch(official, tmp_path).read_bytes() == CONTENT
    assert host.ranges == [None, "bytes=300000-"]


def test_a_host_that_does_not_say_the_length_is_believed_when_the_checksum_is_right(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.says_length = False
    assert fetch(official, tmp_path).read_bytes() == CONTENT


def test_a_connection_cut_again_and_again_keeps_the_part_and_says_to_run_it_again(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.cuts = (1000,) * 10
    with pytest.raises(DataError, match=r"cut 4 times .* 4,000 bytes .*; run the command again"):
        fetch(official, tmp_path)
    assert len(host.ranges) == 4
    assert (tmp_path / "pictures.tar.gz.part").read_bytes() == CONTENT[:4000]
    host.cuts = ()
    assert fetch(official, tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.content = CONTENT[::-1]
    with pytest.raises(DataError, match=f"should have {MD5}"):
        fetch(official, tmp_path)
    assert names(tmp_path) == []


def test_a_refused_connection_says_which_file_to_put_where(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.server_close()
    with pytest.raises(DataError) as detected:
        fetch(official, tmp_path)
    for fact in ("pictures.tar.gz", official.url, MD5, str(tmp_path), "refused"):
        assert fact in str(detected.value)


def test_a_file_that_the_host_does_not_have_is_to_be_put_there_by_hand(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.status = 404
    with pytest.raises(DataError, match=r"it answers 404 Not Found\); get pictures.tar.gz"):
        fetch(official, tmp_path)


def test_more_than_a_gigabyte_is_refused_before_it_is_read(
    host: Host, official: OfficialFile, tmp_path: Path
) -> None:
    host.claimed_length = 10**9 + 1
    with pytest.raises(DataError, match="1,000,000,001 bytes"):
        fetch(official, tmp_path)
    assert names(tmp_path) == []


def test_a_host_that_says_no_length_cannot_fill_the_disk(
    host: Host, official: OfficialFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.says_length = False
    monkeypatch.setattr(download, "LARGEST_BYTES", 300_000)
    with pytest.raises(DataError, match="no official file has over 300,000"):
        fetch(official, tmp_path)


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/file"])
def test_neither_an_address_nor_a_redirection_leads_away_from_http(
    host: Host, official: OfficialFile, tmp_path: Path, address: str
) -> None:
    with pytest.raises(DataError, match="only http and https"):
        fetch(OfficialFile(address, MD5), tmp_path)
    host.location = address
    with pytest.raises(DataError, match="cannot be downloaded"):
        fetch(official, tmp_path)


def test_a_folder_that_cannot_be_made_is_named(official: OfficialFile, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file/folder cannot be written .*; choose another"):
        fetch(official, tmp_path / "file" / "folder")


def test_get_fetches_all_files_of_a_dataset_from_a_mirror(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tuple(official._replace(md5=MD5) for official in OFFICIAL["svhn"])
    monkeypatch.setitem(OFFICIAL, "svhn", files)
    paths = get("svhn", tmp_path, base_urls={"svhn": f"{host.address}/mirror/"})
    assert paths == (tmp_path / "train_32x32.mat", tmp_path / "test_32x32.mat")
    assert all(path.read_bytes() == CONTENT for path in paths)


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
