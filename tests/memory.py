"""How much memory Python and NumPy take."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """Fail if more bytes than that are taken at any moment. Memory of C libraries is not seen."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak:,} bytes"
