"""A process that decodes pictures and can do little else, run as `python -m`.

A picture from a stranger is the most dangerous thing that a service handles: a flaw in a decoder
may crash it, hang it, or run code. So it is decoded here. The process has little memory, may not
write a file, and answers with bytes of a known length, of which nothing is ever unpickled.

A request is two numbers of 32 bits, the length of the picture and the size of the image, then the
picture. An answer is one byte, 1 for an image and 0 for a reason, a number of 32 bits, and that
many bytes.
"""

import os
import struct
import sys
from typing import BinaryIO

from oddone.data.decode import BrokenImageError, decode_picture, without_warnings

if sys.platform != "win32":
    import resource

REQUEST, ANSWER = struct.Struct("<II"), struct.Struct("<BI")
IMAGE, REASON = 1, 0


def main() -> None:
    """Answer until the input ends; the arguments are bytes of memory, and pixels of a picture."""
    most_bytes, most_pixels = map(int, sys.argv[1:])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a C library prints is no answer
    limit_process(most_bytes)
    with without_warnings():
        serve(sys.stdin.buffer, answers, most_pixels)


def limit_process(most_bytes: int) -> None:
    """Let this process have so much more memory than it has, and write no file."""
    if sys.platform == "win32":
        return
    most = _bytes_of_addresses() + most_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _bytes_of_addresses() -> int:
    """Return how much of its addresses this process uses already; elsewhere than on Linux, 1 GB."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 2**30


def serve(requests: BinaryIO, answers: BinaryIO, most_pixels: int) -> None:
    """Answer one request after the other."""
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        length, size = REQUEST.unpack(head)
        try:
            image = decode_picture(requests.read(length), size, most_pixels).image
            kind, content = IMAGE, image.tobytes()
        except BrokenImageError as error:
            kind, content = REASON, str(error).encode(errors="replace")
        answers.write(ANSWER.pack(kind, len(content)) + content)
        answers.flush()


if __name__ == "__main__":
    main()
