"""Sources in pieces: what can be scored by itself, elsewhere, or again.

A piece is a picture file, a tar, a row group of a Parquet file, or an image of an array. The pieces
of sources always come in the same order, so that a share of them (`share_of`) is the same wherever
it is computed, and all shares, one after the other, are the whole.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from oddone.data.file_tree import ending_of, stat_or_reason
from oddone.data.folder import contents_below
from oddone.data.formats import ENDINGS
from oddone.data.image_set import BrokenFile
from oddone.data.imglist import parse_imglist
from oddone.data.listings import PACKED, packed_files, read_packed
from oddone.data.notation import Request, read_request
from oddone.data.packed import open_place
from oddone.data.parquet_file import row_groups
from oddone.data.readable import Readable
from oddone.data.remote import RemoteFile, described, is_url, pictures_of
from oddone.errors import DataError, SettingsError

FILE_SCHEMES = ("folder", "flat", "imglist")
"""The schemes in which every image is a file of its own."""


class PackedPiece(NamedTuple):
    """A tar, or a row group of a Parquet file."""

    scheme: str
    place: str
    size: int
    """Of the whole file, in bytes."""
    group: int = 0
    images: int = 0
    """How many; 0 where that is not known."""


class ArrayPiece(NamedTuple):
    """An image of a data set that is an array."""

    source: str
    number: int
    fingerprint: str


Piece: TypeAlias = str | RemoteFile | BrokenFile | PackedPiece | ArrayPiece
_KINDS = {kind.__name__: kind for kind in (RemoteFile, BrokenFile, PackedPiece, ArrayPiece)}


def files_of(request: Request, left_out: Counter[str]) -> list[str | BrokenFile]:
    """Return the files of a request, and add to `left_out` what its folder holds beside them."""
    if request.scheme == "imglist":
        path, root = request.list_and_root
        return [str(root / name) for name in parse_imglist(path)[0]]
    if not request.path.is_dir():
        return [str(request.path)]
    contents, folder = contents_below(request.path), str(request.path)
    left_out.update(contents.left_out)
    # A Path for each of 200,000 files is slow.
    return [*(os.path.join(folder, name) for name in contents.pictures), *contents.locked]  # noqa: PTH118


def is_read_from_afar(request: Request) -> bool:
    """Return whether its pictures are no files of this machine, and are read one by one."""
    return request.is_remote or request.scheme in PACKED


def readables_of(request: Request, left_out: Counter[str]) -> Iterator[Readable]:
    """Yield the pictures of such a request, as they are asked for."""
    if request.scheme in PACKED:
        for place in packed_files(request.scheme, _place(request)):
            yield from read_packed(request.scheme, place)
    else:
        yield from _remote_files(request.place, left_out)


def pieces_of(requests: Iterable[Request], left_out: Counter[str]) -> Iterator[Piece]:
    """Yield the pieces of requests, in order."""
    for request in requests:
        if request.scheme in PACKED:
            for place in packed_files(request.scheme, _place(request)):
                yield from _packed_pieces(request.scheme, place)
        elif request.is_remote:
            yield from _remote_files(request.place, left_out)
        elif request.scheme in FILE_SCHEMES:
            yield from files_of(request, left_out)
        else:
            split = "" if request.split is None else f"#{request.split}"
            source = f"{request.scheme}:{request.place}{split}"
            images = read_request(request)
            for number in range(len(images)):
                yield ArrayPiece(source, number, images.fingerprint)


def images_in(piece: Piece) -> int:
    """Return how many images a piece has; 0 where that is not known."""
    return piece.images if isinstance(piece, PackedPiece) else 1


def share_of(pieces: Sequence[Piece], number: int, shares: int) -> Sequence[Piece]:
    """Return the share of that number, counted from 1, of pieces that follow each other."""
    total = len(pieces)
    if shares > total:
        s = "" if total == 1 else "s"
        has_tars = any(isinstance(piece, PackedPiece) and piece.scheme == "tar" for piece in pieces)
        raise SettingsError(
            f"{shares:,} shards of {total:,} file{s} leave some without any"
            f"{' (a tar is one piece, however many images it holds)' if has_tars else ''}; "
            f"choose at most {total:,} shard{s}"
        )
    return pieces[(number - 1) * total // shares : number * total // shares]


class Identity:
    """A hash over pieces, which are added one by one: it tells whether sources are the same.

    A file of this machine counts with its size and time, as others may take its name.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, piece: Piece, part: int = 0) -> None:
        """Add the next piece, and the number of the part that it is in, if it is in any."""
        described = [part, to_json(piece), _state_of(piece)]
        self._digest.update(json.dumps(described).encode() + b"\n")

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def to_json(piece: Piece) -> object:
    """Return a piece as what JSON can hold."""
    return piece if isinstance(piece, str) else [type(piece).__name__, *piece]


def from_json(content: object) -> Piece:
    """Return the piece that `to_json` has made this of."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content and content[0] in _KINDS:
        try:
            return _KINDS[content[0]](*content[1:])
        except TypeError:
            pass
    raise DataError("a list of pieces is damaged; choose another folder")


def _state_of(piece: Piece) -> object:
    """Return what changes with the content of a file of this machine; None of all else."""
    path = piece.place if isinstance(piece, PackedPiece) else piece
    if not isinstance(path, str) or is_url(path):
        return None
    status = stat_or_reason(path)
    if isinstance(status, str):
        return status
    return status.st_size, int(status.st_mtime)  # parts of a second are lost in some copies


def _place(request: Request) -> str:
    return request.place if request.is_remote else str(request.path)


def _remote_files(url: str, left_out: Counter[str]) -> Iterator[RemoteFile]:
    if ending_of(url) in ENDINGS:
        return iter([described(url)])
    return pictures_of(url, left_out)


def _packed_pieces(scheme: str, place: str) -> Iterator[PackedPiece | BrokenFile]:
    """Yield the pieces of a file; one that cannot be opened is a piece with the reason."""
    try:
        with open_place(place) as opened:
            size = opened.size
        if scheme == "tar":
            yield PackedPiece(scheme, place, size)
            return
        for group in row_groups(place):
            yield PackedPiece(scheme, place, size, group.number, group.rows)
    except (DataError, OSError) as error:
        yield BrokenFile(place, str(error))
