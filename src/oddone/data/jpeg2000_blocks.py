"""How much memory the blocks and tiles of a JPEG 2000 take, beside its pixels.

OpenJPEG takes some hundred bytes for each block that was encoded on its own, however small that is,
and thousands for each tile. Both sizes are in the file: in the main header, and once more in those
of tiles, which may differ.
"""

import struct
from collections.abc import Iterator
from io import BufferedIOBase
from typing import NamedTuple

BYTES_PER_BLOCK = 550  # as measured
BYTES_PER_TILE = 13_000
_START = b"\xff\x4f"  # of the codestream; before it come boxes
_SIZE, _CODING, _CODING_OF_COMPONENT = 0xFF51, 0xFF52, 0xFF53
_TILE, _DATA = 0xFF90, 0xFF93
# Those that OpenJPEG skips by their length. It goes through others in steps of two bytes.
_WITH_LENGTH = {
    *(0xFF50, 0xFF55, 0xFF57, 0xFF58, 0xFF59, 0xFF5C, 0xFF5D, 0xFF5E, 0xFF5F, 0xFF60, 0xFF61),
    *(0xFF63, 0xFF64, 0xFF74, 0xFF75, 0xFF77, 0xFF78, _SIZE, _CODING, _CODING_OF_COMPONENT),
}


class _Size(NamedTuple):
    """The first numbers of the main header: sides and offsets of the picture and its tiles."""

    width: int
    height: int
    left: int
    top: int
    tile_width: int
    tile_height: int
    tile_left: int
    tile_top: int
    components: int

    @property
    def tiles(self) -> int:
        across = -(-(self.width - self.tile_left) // max(1, self.tile_width))
        return across * -(-(self.height - self.tile_top) // max(1, self.tile_height))

    @property
    def pixels_of_a_tile(self) -> int:
        across = min(self.tile_width, self.width - self.left)
        return across * min(self.tile_height, self.height - self.top)


def bytes_of_blocks(stream: BufferedIOBase) -> int:
    """Return about how many bytes the blocks of a tile take, and the list of all tiles."""
    place = stream.tell()
    _seek_codestream(stream)
    size, smallest = None, 2**12
    for marker, content in _segments(stream):
        if marker == _SIZE:
            size = _Size(*struct.unpack(">8IH", content[2:36]))
        elif marker == _CODING:
            smallest = min(smallest, _block_pixels(content[0], content[5:]))
        elif marker == _CODING_OF_COMPONENT:
            smallest = min(smallest, _block_pixels(content[1], content[2:]))
    stream.seek(place)
    if size is None:
        return 0  # the decoder says what is wrong
    blocks = -(-size.pixels_of_a_tile // smallest) * size.components
    return blocks * BYTES_PER_BLOCK + size.tiles * BYTES_PER_TILE


def _seek_codestream(stream: BufferedIOBase) -> None:
    """Go to where the codestream begins: at once, or in a box of a list."""
    stream.seek(0)
    if stream.read(2) == _START:
        return
    stream.seek(0)
    while len(head := stream.read(8)) == 8:
        length, kind, taken = int.from_bytes(head[:4]), head[4:], 8
        if length == 1:
            length, taken = int.from_bytes(stream.read(8)), 16
        if kind == b"jp2c":
            stream.read(2)
            return
        if length < taken:
            return  # up to the end of the file, or damaged
        stream.seek(length - taken, 1)


def _segments(stream: BufferedIOBase) -> Iterator[tuple[int, bytes]]:
    """Yield the segments of all headers with their content, without the data between them."""
    end_of_tile = 0
    while len(code := stream.read(2)) == 2:
        marker = int.from_bytes(code)
        if marker == _TILE:
            begin = stream.tell() - 2
            length = int.from_bytes(stream.read(10)[4:8])
            end_of_tile = begin + length if length else 0
        elif marker == _DATA:
            if end_of_tile < stream.tell():
                return  # it goes on to the end, or is damaged
            stream.seek(end_of_tile)
        elif marker in _WITH_LENGTH:
            yield marker, stream.read(max(0, int.from_bytes(stream.read(2)) - 2))


def _block_pixels(style: int, coding: bytes) -> int:
    """Return how many pixels the smallest block has: one is never larger than its precinct."""
    across, down = coding[1] + 2, coding[2] + 2  # exponents of two
    if style & 1:
        for resolution, precinct in enumerate(coding[5 : 6 + coding[0]]):
            halved = 1 if resolution else 0
            across = min(across, max(0, (precinct & 15) - halved))
            down = min(down, max(0, (precinct >> 4) - halved))
    return 1 << across + down
