"""Pictures that are packed together: in a tar (as WebDataset has them) or in a Parquet file.

Both may lie on this machine or behind a URL. They are read from the start to the end, a picture in
memory at a time; damage ends a file with a reason, as whoever has thousands of such files wants the
others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from oddone.data.remote import OpenFile, is_url, open_url
from oddone.files import open_regular


class PackedPicture(NamedTuple):
    """A picture from a tar or a Parquet file, or why it cannot be read."""

    name: str
    """Such as photos.tar/cats/1.jpg or photos.parquet[17]."""
    content: bytes | str
    """The bytes of a picture file; or, as text, the reason why there are none."""


class PackedLabel(NamedTuple):
    """What is known of a picture before it is read."""

    name: str
    size: int
    label: str | int | None


@contextmanager
def open_place(place: str, *, from_the_start: bool = True) -> Iterator[OpenFile]:
    """Yield the file at a path or URL, open to be read."""
    if is_url(place):
        with open_url(place, from_the_start=from_the_start) as opened:
            yield opened
        return
    with open_regular(Path(place)) as file:
        status = os.fstat(file.fileno())
        version = f"{status.st_dev} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"
        yield OpenFile(file, status.st_size, version, can_seek=True)
