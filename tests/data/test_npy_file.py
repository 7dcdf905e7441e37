import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from memory import memory_below
from oddone.data.arrays import read_arrays
from oddone.data.npy_file import map_npy, read_npz
from oddone.errors import DataError

ARRAYS = [
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)),
    np.array(["a", "bc"]),
    np.array([b"a", b"bc"]),
    np.array(3.5),
    np.zeros((0, 3)),
]


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    """Return a .npy file with any header."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + content


def header(shape: object, kind: str = "|u1") -> str:
    return f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}}}"


def zipped(content: bytes, packer: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packer) as archive:
        archive.writestr("images.npy", content)
    return stream.getvalue()


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    content = zipped(npy(header((1, 2)), b"ab"))
    end = content.rindex(b"PK\5\6")
    (start,) = struct.unpack("<I", content[end + 16 : end + 20])
    listed = 2 * content[start:end]  # one array, listed twice
    counts = struct.pack("<HHHHIIH", 0, 0, 2, 2, len(listed), start, 0)
    (tmp_path / "a.npz").write_bytes(content[:start] + listed + b"PK\5\6" + counts)
    for names in (["images"], []):
        with pytest.raises(DataError, match=r"a\.npz .*it holds 'images' twice"):
            read_npz(tmp_path / "a.npz", names)


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_what_numpy_writes_is_read(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", one=array, two=array)
    np.savez_compressed(tmp_path / "b.npz", one=array)
    packed = read_npz(tmp_path / "b.npz", ["one"])
    plain = read_npz(tmp_path / "a.npz", ["one"])
    assert plain["two"] is None
    for read in (map_npy(tmp_path / "a.npy"), packed["one"], plain["one"]):
        assert read is not None
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array, strict=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: npy(header((2**40, 3, 4, 4))), "takes .* bytes, and it has 0"),
        (lambda: npy(header((10**30,))), "takes .* bytes, and it has 0"),
        (lambda: npy(header((-1, -4)), bytes(4)), "it has the shape"),
        (lambda: npy(header((0, 2**62, 2**62, 2**62))), "cannot read"),
        (lambda: npy(header((1,), "|O"), bytes(8)), "no plain numbers or text"),
        (lambda: npy(header((1,), "|V8"), bytes(8)), "no plain numbers or text"),
        (lambda: npy(header((2**31,), "<U0")), "no plain numbers or text"),
        (lambda: npy("nonsense" * 8), "cannot read"),
        (lambda: npy("(" * 9000), "cannot read"),
        (lambda: npy("x" * 60_000), "cannot read"),
        (lambda: npy(header((1,)), bytes(1), version=9), "version"),
        (lambda: b"", "cannot read"),
    ],
)
def test_a_header_that_lies_is_named(
    tmp_path: Path, make: Callable[[], bytes], message: str
) -> None:
    with memory_below(20 * 2**20):
        for name, content in (("a.npy", make()), ("a.npz", zipped(make()))):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(DataError, match=f"as NumPy arrays: .*({message})|{message}"):
                read_arrays(tmp_path / name)


def test_an_archive_does_not_unpack_to_any_length(tmp_path: Path) -> None:
    shape = (2**7, 2**10, 2**10)
    (tmp_path / "a.npz").write_bytes(zipped(npy(header(shape), bytes(2**27))))
    with (
        memory_below(10 * 2**20),
        pytest.raises(DataError, match="would unpack from .* to 134,21.*save it unpacked"),
    ):
        read_arrays(tmp_path / "a.npz")


def change_member(content: bytes, place: int, value: int) -> bytes:
    """Return the archive with a number of two bytes changed in both headers of its member."""
    changed = bytearray(content)
    for start, offset in ((0, place), (content.index(b"PK\x01\x02"), place + 2)):
        changed[start + offset : start + offset + 2] = struct.pack("<H", value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (4, 99, "zip file version 9.9"),  # what zipfile does not implement
        (6, 1, "images.npy is encrypted"),
        (6, 0x20, "compressed patched data"),
        (8, 99, "packed by method 99"),
        (8, 14, "by method 14"),
    ],
)
def test_an_archive_of_another_kind_is_named(
    tmp_path: Path, place: int, value: int, message: str
) -> None:
    content = zipped(npy(header((1, 2, 2)), bytes(4)))
    (tmp_path / "a.npz").write_bytes(change_member(content, place, value))
    with pytest.raises(DataError, match=message):
        read_arrays(tmp_path / "a.npz")


def test_a_wrong_byte_is_noticed(tmp_path: Path) -> None:
    content = bytearray(zipped(npy(header((4, 20, 20)), bytes(1600)), zipfile.ZIP_STORED))
    content[500] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="CRC"):
        read_arrays(tmp_path / "a.npz")


def test_a_damaged_name_does_not_hide_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=ARRAYS[0], labels=np.arange(2), more=np.arange(3))
    assert set(read_npz(tmp_path / "a.npz", ["images", "labels"])) == {"images", "labels", "more"}
    before, _, after = (tmp_path / "a.npz").read_bytes().rpartition(b"labels")
    (tmp_path / "a.npz").write_bytes(before + b"label!" + after)
    with pytest.raises(DataError, match="cannot read .*a.npz as NumPy arrays: .*differ"):
        read_npz(tmp_path / "a.npz", ["images", "labels"])


def test_a_reason_is_short_whatever_the_file_says(tmp_path: Path) -> None:
    content = bytearray(zipped(npy(header((40_000,)), bytes(40_000)), zipfile.ZIP_STORED))
    content[26:28] = struct.pack("<H", 30_000)  # of the name where the member begins
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="File name in directory 'images.npy' and header") as caught:
        read_npz(tmp_path / "a.npz", ["images"])
    assert len(str(caught.value)) < 1000
