"""Tars and Parquet files of pictures, made on the spot."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet


def tar_of(contents: Mapping[str, bytes], mode: str = "w") -> bytes:
    """Return a tar of these files, by their names."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def some_pictures(number: int, seed: int = 0) -> list[bytes]:
    """Return some PNG files of 20 pixels."""
    return [_png(seed + each) for each in range(number)]


def _png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write_parquet(
    path: Path, columns: Mapping[str, Sequence[object]], rows_per_group: int = 2
) -> Path:
    parquet.write_table(pa.table(dict(columns)), path, row_group_size=rows_per_group)
    return path
