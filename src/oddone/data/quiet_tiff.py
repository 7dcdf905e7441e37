"""Keep libtiff and Pillow from writing a line to stderr for every damaged picture."""

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from PIL import _imaging

# Where a program has set up no logging, Python writes errors to stderr unless somebody takes them.
logging.getLogger("PIL").addHandler(logging.NullHandler())

_LOCK = Lock()
_users = 0
_handler: int | None = None  # what libtiff called before; None is silence


@contextmanager
def without_tiff_messages() -> Iterator[None]:
    """Turn off libtiff's messages; what they say is in the reason why a picture cannot be read.

    All threads share this setting: it comes back when the last one that wanted silence is done.
    """
    global _users, _handler  # noqa: PLW0603, libtiff has one handler for the whole process
    with _LOCK:
        _users += 1
        if _users == 1:
            _handler = _set_handler(None)
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if _users == 0:
                _set_handler(_handler)


def _set_handler(handler: int | None) -> int | None:
    """Set what libtiff calls with a message, and return what it called before."""
    try:
        # Who asks a library for a name finds those of the libraries that it was linked with, too.
        setter: Any = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
    except (AttributeError, OSError):  # libtiff is built in, as on Windows, or left out
        return None
    setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
    before: int | None = setter(handler)
    return before
