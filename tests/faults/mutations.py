"""Change files at random, but the same files in the same way for the same seed."""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

PNG_START = b"\x89PNG\r\n\x1a\n"
_HEADER = 160  # bytes at the beginning, which say how to read all others
_LIMITS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def mutated(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return a file with one to four changes, some of which take a part of another file."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(changed, random.choice(others), random)
    if changed.startswith(PNG_START) and random.random() < 0.7:
        return with_png_checksums(bytes(changed))  # or nothing but checksums would be tried
    return bytes(changed)


def mutated_files(
    valid: Mapping[str, bytes], number: int, seed: int
) -> Iterator[tuple[str, bytes]]:
    """Yield so many of the files, drawn and changed at random, with their names."""
    random = Random(seed)  # noqa: S311  (nothing is secret)
    names, contents = list(valid), list(valid.values())
    for count in range(number):
        name = random.choice(names)
        yield f"mutant-{count:05}-{name}", mutated(valid[name], contents, random)


def with_png_checksums(content: bytes) -> bytes:
    """Return a PNG file whose chunks have the right checksums, as far as chunks can be found."""
    fixed, place = bytearray(content), len(PNG_START)
    while place + 12 <= len(fixed):
        end = place + 8 + int.from_bytes(fixed[place : place + 4])
        if end + 4 > len(fixed):
            break
        fixed[end : end + 4] = struct.pack(">I", zlib.crc32(fixed[place + 4 : end]))
        place = end + 4
    return bytes(fixed)


def _place(content: bytearray, random: Random) -> int:
    """Return a place in the file: half of the time in its header."""
    end = min(len(content), _HEADER) if random.random() < 0.5 else len(content)
    return random.randrange(end) if end else 0


def _flip_bits(content: bytearray, _: bytes, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 8))):
        if content:
            content[_place(content, random)] ^= 1 << random.randrange(8)


def _set_byte(content: bytearray, _: bytes, random: Random) -> None:
    if content:
        content[_place(content, random)] = random.randrange(256)


def _set_number(content: bytearray, _: bytes, random: Random) -> None:
    """Write a number that is the first or the last of its kind, as if it were a length."""
    width, order = random.choice((1, 2, 4, 8)), random.choice(("big", "little"))
    number = random.choice(_LIMITS) % 2 ** (8 * width)
    place = _place(content, random)
    content[place : place + width] = number.to_bytes(width, order)


def _cut(content: bytearray, _: bytes, random: Random) -> None:
    del content[_place(content, random) :]


def _remove(content: bytearray, _: bytes, random: Random) -> None:
    place = _place(content, random)
    del content[place : place + random.choice((1, 4, 16, 64))]


def _repeat(content: bytearray, _: bytes, random: Random) -> None:
    place = _place(content, random)
    part = content[place : place + random.choice((1, 4, 16, 64))]
    content[place:place] = part * random.choice((1, 2, 50))


def _splice(content: bytearray, other: bytes, random: Random) -> None:
    """Put a part of another file in the place of a part of this one."""
    start, place = random.randrange(len(other) + 1), _place(content, random)
    part = other[start : start + random.choice((8, 64, 512))]
    content[place : place + random.choice((0, len(part)))] = part


_CHANGES: tuple[Callable[[bytearray, bytes, Random], None], ...] = (
    _flip_bits,
    _flip_bits,
    _set_byte,
    _set_number,
    _set_number,
    _cut,
    _remove,
    _repeat,
    _splice,
)
