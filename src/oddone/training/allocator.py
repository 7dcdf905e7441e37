"""Keep freed memory for the next step instead of giving it back to the system.

A training step frees buffers of many megabytes and asks for the same again a moment later. glibc
returns such buffers to the system at once, and the system then has to hand out and clear every
page anew: on a CPU that can cost more than the arithmetic (docs/decisions/0005).
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP_BYTES = 2**30


def keep_freed_memory() -> bool:
    """Ask the C library to keep up to a gigabyte of freed memory; say whether it understood."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, KEEP_BYTES)) and bool(
        mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)
    )
