"""Pictures in a tar, in the layout of WebDataset or as anybody would pack a folder.

All members whose names end like pictures are pictures. The label of one is the text of the member
of the same key that ends in .cls (`0001.jpg` and `0001.cls`); without any, the folder it is in.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from oddone.data.file_tree import ending_of, is_hidden
from oddone.data.formats import ENDINGS
from oddone.data.limits import too_long
from oddone.data.packed import PackedLabel, PackedPicture, open_place
from oddone.data.tar_file import Archive, Member, archive_in
from oddone.errors import DataError

LABEL_ENDING = ".cls"
LONGEST_LABEL = 200  # bytes
LONGEST_NAME = 4096  # bytes, of a name that does not fit into a header
_GNU_NAME, _PAX = b"L", b"x"
_PAX_NAME = re.compile(rb"(?:^|\n)\d+ path=([^\n]*)\n")


def read_tar(place: str) -> Iterator[PackedPicture]:
    """Yield the pictures of a tar, in order."""
    try:
        with _open(place) as archive:
            for member in _members(archive):
                if _is_picture(member):
                    content = too_long(member.size) or archive.content(member)
                    yield PackedPicture(f"{place}/{member.name}", content)
    except (DataError, OSError) as error:
        yield PackedPicture(place, str(error))


def list_tar(place: str) -> Iterator[PackedLabel]:
    """Yield the names, sizes and labels of the pictures of a tar, in order; damage is an error."""
    found: list[Member] = []
    labels: dict[str, str] = {}
    with _open(place) as archive:
        for member in _members(archive):
            if _is_picture(member):
                found.append(member)
            elif member.name.endswith(LABEL_ENDING) and member.size <= LONGEST_LABEL:
                text = archive.content(member).decode("utf-8", "replace").strip()
                labels[_key(member.name)] = text
    for member in found:
        label = labels.get(_key(member.name)) if labels else _folder_of(member.name)
        yield PackedLabel(f"{place}/{member.name}", member.size, label)


@contextmanager
def _open(place: str) -> Iterator[Archive]:
    with (
        open_place(place) as opened,
        archive_in(opened.file, opened.size, place, can_seek=opened.can_seek) as archive,
    ):
        yield archive


def _members(archive: Archive) -> Iterator[Member]:
    """Yield the files of the archive, under their whole names."""
    long_name = None
    for member in archive:
        if member.kind in (_GNU_NAME, _PAX) and member.size <= LONGEST_NAME:
            content = archive.content(member)
            if member.kind == _GNU_NAME:
                long_name = content.rstrip(b"\0")
            elif match := _PAX_NAME.search(content):
                long_name = match[1]
            continue
        if member.is_file:
            name = member.name if long_name is None else long_name.decode("utf-8", "replace")
            yield member._replace(name=name.removeprefix("./"))
        long_name = None


def _is_picture(member: Member) -> bool:
    return ending_of(member.name) in ENDINGS and not is_hidden(PurePosixPath(member.name).name)


def _key(name: str) -> str:
    """Return what the files of one sample have in common: all before the first dot of the name."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{file.partition('.')[0]}"


def _folder_of(name: str) -> str | None:
    return PurePosixPath(name).parent.name or None
