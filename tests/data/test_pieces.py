import os
from pathlib import Path

import pytest

from oddone.data import stream
from oddone.data.image_set import BrokenFile
from oddone.data.pieces import ArrayPiece, Identity, PackedPiece, Piece, from_json, to_json
from oddone.data.remote import RemoteFile
from oddone.data.stream import list_pieces, stream_paths, stream_pieces
from oddone.errors import DataError
from packs import some_pictures, tar_of, write_parquet


def write_sources(folder: Path) -> list[str]:
    """Return a folder, a tar, a Parquet file of two row groups, a file that is none, and arrays."""
    pictures = some_pictures(8)
    (folder / "photos").mkdir()
    for number in range(2):
        (folder / "photos" / f"{number}.png").write_bytes(pictures[number])
    (folder / "photos" / "notes.txt").write_text("no picture")
    (folder / "a.tar").write_bytes(tar_of({"2.png": pictures[2], "3.png": pictures[3]}))
    (folder / "b.parquet").write_text("no table")
    write_parquet(folder / "a.parquet", {"image": pictures[4:7]})
    names = ("photos", "a.tar", "a.parquet", "b.parquet")
    return [*(str(folder / name) for name in names), "fashion:unseen#test"]


def test_the_pieces_of_sources_give_the_images_of_the_sources(tmp_path: Path) -> None:
    sources = write_sources(tmp_path)
    pieces, left_out = list_pieces(sources)
    listed = [from_json(to_json(piece)) for piece in pieces]
    packed = [piece for piece in listed if isinstance(piece, PackedPiece)]
    assert [(piece.scheme, piece.group, piece.images) for piece in packed] == [
        ("tar", 0, 0),
        ("parquet", 0, 2),
        ("parquet", 1, 1),
    ]
    assert left_out == {".txt": 1}
    whole, in_pieces = list(stream(sources, size=16)), list(stream_pieces(listed, size=16))
    assert [image.path for image in in_pieces] == [image.path for image in whole]
    assert [image.reason is None for image in in_pieces] == [
        image.reason is None for image in whole
    ]
    for one, other in zip(in_pieces, whole, strict=True):
        assert one.image is None or (one.image == other.image).all()
    assert len(whole) == 2 + 2 + 3 + 1 + 400


@pytest.mark.parametrize(
    "piece",
    [
        "a.png",
        "bare/\udcff.png",
        RemoteFile("s3://b/a.png", 5, "etag"),
        BrokenFile("locked", "permission denied"),
        PackedPiece("parquet", "a.parquet", 100, 3, 16),
        ArrayPiece("fashion:known", 3, "print"),
    ],
)
def test_a_piece_survives_json_and_changes_the_identity(piece: Piece) -> None:
    assert from_json(to_json(piece)) == piece
    with_it, without = Identity(), Identity()
    with_it.add(piece)
    assert with_it.hexdigest() != without.hexdigest()


@pytest.mark.parametrize("name", ["a.png", "a.tar"])
def test_a_file_that_has_changed_under_its_name_changes_the_identity(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"first")
    piece = str(path) if name == "a.png" else PackedPiece("tar", str(path), 5)

    def identity() -> str:
        found = Identity()
        found.add(piece)
        return found.hexdigest()

    os.utime(path, (1, 1))
    first = identity()
    os.utime(path, (1, 1.5))
    assert identity() == first  # as copies by rsync may be
    os.utime(path, (1, 2))
    later = identity()
    path.write_bytes(b"longer than that")
    os.utime(path, (1, 2))
    longer = identity()
    path.unlink()
    assert len({first, later, longer, identity()}) == 4


@pytest.mark.parametrize("content", [3, [], ["Path", "a"], ["BrokenFile", "a"], {"a": 1}])
def test_what_is_no_piece_is_refused(content: object) -> None:
    with pytest.raises(DataError, match="a list of pieces is damaged"):
        from_json(content)


def test_paths_that_become_known_one_by_one_may_be_urls() -> None:
    import fsspec  # noqa: PLC0415

    fsspec.filesystem("memory").pipe("/one/a.png", some_pictures(1)[0])
    good, gone = stream_paths(["memory://one/a.png", "memory://one/b.png"], size=16)
    assert good.image is not None
    assert gone.reason is not None
    assert "memory://one/b.png does not exist" in gone.reason
