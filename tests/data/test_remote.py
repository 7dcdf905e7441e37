"""Sources behind URLs: in memory, on this machine, and on a server of the web."""

import http.server
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import fsspec
import pytest
from pictures import make_folder

from oddone.data import limits, load, stream
from oddone.data.remote import _file_system
from oddone.errors import DataError
from packs import some_pictures, tar_of, write_parquet

PICTURES = some_pictures(4)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder with two classes, a text, a broken picture, and hidden files."""
    root = tmp_path / "photos"
    for number, picture in enumerate(PICTURES):
        folder = root / ("cats" if number < 2 else "dogs")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(picture)
    (root / "cats" / "broken.png").write_text("no picture")
    (root / "cats" / "notes.txt").write_text("no picture")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "0.png").write_bytes(PICTURES[0])
    return root


@pytest.fixture
def bucket(photos: Path) -> Iterator[str]:
    """Return a URL of the same in memory."""
    memory = fsspec.filesystem("memory")
    memory.put(str(photos), "/bucket/photos", recursive=True)
    yield "memory://bucket/photos"
    memory.rm("/bucket", recursive=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Return the URL of a server of the temporary folder."""
    pytest.importorskip("aiohttp")
    handler = partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def rows(source: str, root: str) -> list[tuple[str, str | None]]:
    """Return paths relative to the root, and reasons, of what is streamed."""
    found = list(stream(source, size=16))
    return [(image.path.removeprefix(root).strip("/"), image.reason) for image in found]


EXPECTED = [
    ("cats/0.png", None),
    ("cats/1.png", None),
    ("cats/broken.png", "not an image of a known format"),
    ("dogs/2.png", None),
    ("dogs/3.png", None),
]


def test_a_folder_is_the_same_wherever_it_is(photos: Path, bucket: str, server: str) -> None:
    assert rows(str(photos), str(photos)) == EXPECTED
    assert rows(f"file://{photos}", str(photos)) == EXPECTED
    assert rows(f"{bucket}/", bucket) == EXPECTED
    assert rows(f"{server}/photos/", f"{server}/photos") == EXPECTED


def test_images_are_the_same_wherever_they_are(photos: Path, bucket: str, server: str) -> None:
    here = load(str(photos), size=16)
    for url in (bucket, f"{server}/photos", f"folder:{bucket}", f"file://{photos}"):
        there = load(url, size=16)
        assert there.classes == here.classes == ("cats", "dogs")
        assert there.labels.tolist() == here.labels.tolist()
        assert (there.images == here.images).all()
        assert [file.reason for file in there.broken] == [file.reason for file in here.broken]
        assert there.left_out == here.left_out == {".txt": 1}


def test_a_changed_file_behind_a_url_is_decoded_again(bucket: str) -> None:
    before = load(bucket, size=16)
    fsspec.filesystem("memory").pipe("/bucket/photos/cats/0.png", PICTURES[3])
    after = load(bucket, size=16)
    assert (before.images[0] != after.images[0]).any()
    assert before.fingerprint != after.fingerprint


def test_tars_and_parquet_files_are_read_behind_urls(tmp_path: Path, server: str) -> None:
    content = tar_of({"cats/0.png": PICTURES[0], "dogs/1.png": PICTURES[1]})
    (tmp_path / "a.tar").write_bytes(content)
    table = write_parquet(tmp_path / "a.parquet", {"image": PICTURES, "label": [0, 1, 0, 1]})
    memory = fsspec.filesystem("memory")
    memory.pipe({"/packs/a.tar": content, "/packs/b/a.parquet": table.read_bytes()})
    for url in (f"{server}/a.tar", "memory://packs/a.tar"):
        assert rows(url, url) == [("cats/0.png", None), ("dogs/1.png", None)]
        assert load(url, size=16).classes == ("cats", "dogs")
    assert len(load("parquet:memory://packs/b", size=16)) == 4
    assert [path for path, _ in rows("memory://packs/b", "memory://packs/b/a.parquet")] == [
        f"[{row}]" for row in range(4)
    ]
    memory.rm("/packs", recursive=True)


def test_one_picture_behind_a_url_is_a_source_of_a_stream(bucket: str) -> None:
    assert rows(f"{bucket}/dogs/2.png", bucket) == [("dogs/2.png", None)]


def test_a_file_that_is_too_long_is_not_read(
    bucket: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_PICTURE_BYTES", 5)
    monkeypatch.setattr("oddone.data.remote.MOST_PICTURE_BYTES", 5)
    for url in (bucket, f"{server}/photos"):
        reasons = {reason for _, reason in rows(url, url)}
        assert reasons == {"it has over 5 bytes, and is no file of its own on this machine"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("memory://nothing/here", "memory://nothing/here does not exist"),
        ("s4://bucket/x", "nobody here knows s4:// in s4://bucket/x"),
        ("cifar10:memory://bucket", "cifar10: reads files of this machine, not memory://bucket"),
        ("http://127.0.0.1:9/photos/", "cannot read http://127.0.0.1:9/photos"),
    ],
)
def test_what_cannot_be_read_is_one_line(source: str, message: str) -> None:
    for read in (lambda: load(source), lambda: list(stream(source, size=16))):
        with pytest.raises(DataError) as caught:
            read()
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "; " in str(caught.value)


def test_a_store_whose_package_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    _file_system.cache_clear()
    with pytest.raises(DataError, match="s3://bucket/photos/ needs a package .*: pip install s3fs"):
        load("s3://bucket/photos/")
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    _file_system.cache_clear()
    with pytest.raises(DataError, match="pip install 'oddone.remote.'"):
        load("http://127.0.0.1/photos/")
    _file_system.cache_clear()


def test_a_path_of_this_machine_stays_one(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "a:b", {"one": 2})
    assert len(load(f"flat:file://{root}", size=16)) == len(load(f"flat:{root}", size=16))
