"""The reader of pictures, as `case_runner.py` calls it: a path in, something comparable out."""

import hashlib
from pathlib import Path

from oddone.data.decode import decode, without_warnings

SIZE = 16


def picture(path: Path) -> str:
    """Return a hash of the image in a picture file."""
    with without_warnings():
        return hashlib.sha256(decode(path, SIZE).tobytes()).hexdigest()
