import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memory import memory_below
from oddone.data.tar_file import open_archive
from oddone.errors import DataError

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
CONTENTS = {
    "a/one": b"1" * 1000,
    "a/empty": b"",
    f"a/{'long/' * 30}name": b"long",
    "b/two": b"2" * 512,
}


def tar(form: int, contents: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1.5  # type: ignore[assignment]
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def header(kind: bytes, size: int) -> bytes:
    """Return a header that promises so many bytes."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.USTAR_FORMAT)


def read_all(path: Path) -> dict[str, bytes]:
    with open_archive(path) as archive:
        return {member.name: archive.content(member) for member in archive if member.is_file}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("packed", [True, False])
def test_every_format_of_tar_is_read(tmp_path: Path, form: int, packed: bool) -> None:
    content = tar(form, CONTENTS)
    (tmp_path / "a.tar").write_bytes(gzip.compress(content) if packed else content)
    held = read_all(tmp_path / "a.tar")
    assert {name: held[name] for name in ("a/one", "a/empty", "b/two")} == {
        name: CONTENTS[name] for name in ("a/one", "a/empty", "b/two")
    }


def test_members_that_are_not_read_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(tarfile.GNU_FORMAT, CONTENTS))
    with open_archive(tmp_path / "a.tar") as archive:
        assert [member.name for member in archive if member.name == "b/two"] == ["b/two"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: header(b"0", 2**32), "would have 4,294,967,296 bytes"),
        (lambda: header(b"L", 2**32) + bytes(600), "cut short"),  # a name of 4 GB
        (lambda: header(b"x", 2**32) + bytes(600), "cut short"),
        (lambda: gzip.compress(header(b"0", 2**28)), "would have 268,435,456 bytes"),
        (lambda: gzip.compress(header(b"5", 2**28) + bytes(2**27)), "unpacks to over"),
        (lambda: header(b"0", 10), "cut short"),
        (lambda: bytes(100), "cut short"),
        (lambda: b"x" * 512, "damaged header, or is no .tar"),
        (lambda: b"\x1f\x8b" + b"x" * 512, "compression method"),
        (lambda: header(b"0", 0) * 10_001, "over 10,000 files"),
    ],
)
def test_no_archive_chooses_how_much_memory_is_taken(
    tmp_path: Path, make: Callable[[], bytes], message: str
) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(make())
    with (
        memory_below(80 * 2**20),
        pytest.raises(DataError, match=f"cannot read .*a.tar as a tar: .*{message}"),
    ):
        read_all(path)
