"""Whatever is decoded to one image: a file here or behind a URL, or a picture from a tar."""

from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import TypeAlias, TypeVar

from oddone.data.decode import DecodedImage, decode_or_reason, in_parallel, without_warnings
from oddone.data.image_set import BrokenFile
from oddone.data.limits import CONTENTS_BYTES, MemoryBudget
from oddone.data.packed import PackedPicture
from oddone.data.remote import RemoteFile, read_remote
from oddone.progress import Progress

Readable: TypeAlias = str | RemoteFile | PackedPicture | BrokenFile
"""A path, a file behind a URL, a picture from a tar or Parquet file, or what cannot be read."""
FAR_THREADS = 16  # that wait for answers of another machine
Item = TypeVar("Item")
Result = TypeVar("Result")


def name_of(readable: Readable) -> str:
    """Return the path, URL or name by which people know a picture."""
    if isinstance(readable, str):
        return readable
    if isinstance(readable, RemoteFile):
        return readable.url
    return readable.path if isinstance(readable, BrokenFile) else readable.name


def decode_readable(readable: Readable, size: int) -> DecodedImage | str:
    """Return the image, or why there is none."""
    if isinstance(readable, str):
        return decode_or_reason(Path(readable), size)
    content = content_of(readable)
    return content if isinstance(content, str) else decode_or_reason(content, size)


def content_of(readable: RemoteFile | PackedPicture | BrokenFile | str) -> bytes | str:
    """Return the bytes of what is no file of this machine, or why there are none."""
    if isinstance(readable, RemoteFile):
        return read_remote(readable)
    if isinstance(readable, PackedPicture):
        return readable.content
    return readable.reason if isinstance(readable, BrokenFile) else "is a file of its own"


def read_in_parallel(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    progress: Progress | None,
    what: str,
    threads: int | None = None,
) -> Iterator[Result]:
    """Yield `work(item)` for each item, in order, as `in_parallel` does.

    Pictures that come with their bytes are taken only while there is room for these.
    """
    budget = MemoryBudget(CONTENTS_BYTES)

    def held() -> Iterator[Item]:
        for item in items:
            budget.take(_bytes_held(item))
            yield item

    def work_and_let_go(item: Item) -> Result:
        try:
            return work(item)
        finally:
            budget.give_back(_bytes_held(item))

    with without_warnings():
        if isinstance(items, Sized):  # a list of paths, which take nothing
            yield from in_parallel(work, items, progress, what, threads)
        else:
            yield from in_parallel(work_and_let_go, held(), progress, what, threads)


def _bytes_held(item: object) -> int:
    return len(item.content) if isinstance(item, PackedPicture) else 0
