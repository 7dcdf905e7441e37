"""Which rows of a batch this process takes through the network, and in which parts.

A batch is the same for any number of processes; each takes its share of it. Where the settings cut
a batch into parts or chunks, which batch norm sees one at a time, a process takes whole ones, so
that its result is that of one process. Where they do not, batch norm sees all rows of all processes
(`shared_batch_norm.py`), and rows can be shared out anyhow.
"""

import math
from itertools import pairwise
from typing import NamedTuple

from oddone import distributed
from oddone.errors import DataError, SettingsError
from oddone.training.settings import BatchSettings


class RowShare(NamedTuple):
    """What of a batch this process takes."""

    rows: slice
    sizes: list[int]
    """How many rows each of its parts has."""


def own_share(n_rows: int, batch: BatchSettings) -> RowShare:
    """Return which rows of a batch of so many this process takes."""
    number = count_parts(n_rows, batch)
    if number == 1:
        rows = distributed.own_part(n_rows)
        return RowShare(rows, [rows.stop - rows.start])
    ends = [n_rows * end // number for end in range(number + 1)]
    own = distributed.own_part(number)
    own_ends = ends[own.start : own.stop + 1]
    sizes = [end - start for start, end in pairwise(own_ends)]
    return RowShare(slice(own_ends[0], own_ends[-1]), sizes)


def count_parts(n_rows: int, batch: BatchSettings) -> int:
    """Return in how many parts or chunks a batch goes: so many that none has less than two rows."""
    wanted = batch.parts if batch.chunk is None else math.ceil(n_rows / batch.chunk)
    return max(1, min(wanted, n_rows // 2))


def check_shares(n_images: int, n_rows: int, batch: BatchSettings) -> None:
    """Raise an error unless every process has something to do in a step."""
    processes, parts = distributed.count(), count_parts(n_rows, batch)
    if processes > n_images:
        raise DataError(
            f"{processes} processes and {n_images} images a step; start at most {n_images}, or "
            f"give more images, or raise batch.images"
        )
    if 1 < parts < processes:
        setting = "batch.parts" if batch.chunk is None else "batch.chunk"
        raise SettingsError(
            f"{setting} cuts a step into {parts} parts, which are too few for {processes} "
            f"processes; start at most {parts}, or set batch.parts={processes} (each process has "
            f"its own batch norm), or batch.parts=1 without batch.chunk (one for all)"
        )
