"""In how many scans a JPEG comes: each goes over all pixels, and several are kept until the last.

The markers are gone through as libjpeg does. Pictures inside of others, such as thumbnails, and
whatever lies behind the end, such as the film of a photo that moves, do not count.
"""

import re
from collections.abc import Iterator
from io import BufferedIOBase
from typing import NamedTuple

from oddone.data.limits import DamagedFileError

MOST_MARKERS = 1_000_000
CHUNK = 2**20  # bytes
# Markers that a length follows, and the end. Between them may be anything else.
_MARKER = re.compile(rb"\xff([\xc0-\xcf\xd9-\xfe])")
_NOT_FRAMES = {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_END, _SCAN = 0xD9, 0xDA


class Scans(NamedTuple):
    """How a JPEG is decoded."""

    number: int
    """How often the decoder goes over the picture."""
    components: int
    """Such as 3 for colours and 4 for those of print."""
    kept: bool
    """Whether all coefficients are kept, because a single scan does not give all of a pixel."""


class _Segment(NamedTuple):
    marker: int
    content: bytes
    """Its first bytes."""


def read_scans(stream: BufferedIOBase) -> Scans:
    """Return the scans of the JPEG in a stream, which is afterwards where it was before."""
    place = stream.tell()
    stream.seek(0)
    number, components, kept = 0, 0, False
    for marker, content in _segments(stream):
        if 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAMES:
            components = content[5]
            kept = marker in _PROGRESSIVE
        elif marker == _SCAN:
            number += 1
            kept = kept or content[0] < components
            if not kept:
                break  # what comes after a scan that has all is not read
    stream.seek(place)
    return Scans(number, components, kept)


def _segments(stream: BufferedIOBase) -> Iterator[_Segment]:
    """Yield the segments up to the end of the picture, or of the file."""
    count, skipped, rest = 0, 0, b""
    while part := stream.read(CHUNK):
        part, at, rest = rest + part, skipped, b""
        while found := _MARKER.search(part, at):
            count += 1
            if count > MOST_MARKERS:
                raise DamagedFileError(f"it has over {MOST_MARKERS:,} parts")
            marker, at = found[1][0], found.end()
            if marker == _END:
                return
            if at + 8 > len(part):  # as many bytes are looked at
                rest = part[found.start() :]
                break
            yield _Segment(marker, part[at + 2 : at + 8])
            at += max(2, int.from_bytes(part[at : at + 2]))
        rest = rest or (part[-1:] if at < len(part) and part.endswith(b"\xff") else b"")
        skipped = 0 if rest else max(0, at - len(part))
