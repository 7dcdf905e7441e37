"""How much a file may unpack to: whoever sends it must not choose how much memory is taken."""

SMALL_BYTES = 64 * 2**20
"""What any file may unpack to."""
MOST_RATIO = 50
"""How many times its own length a file may unpack to beyond that; images shrink to a half."""


def is_plausible(unpacked: int, stored: int) -> bool:
    """Return whether so many stored bytes may be taken for so many unpacked ones.

    Formats such as zlib reach a thousand to one, but not with images that anybody would keep.
    """
    return unpacked <= max(SMALL_BYTES, MOST_RATIO * stored)
