"""MNIST-style idx files, plain or compressed: grey images and their labels."""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8

from oddone.data.arrays import encode_labels, image_set
from oddone.data.image_set import ImageSet, SplitName
from oddone.data.limits import is_plausible
from oddone.errors import DataError
from oddone.files import open_regular

PREFIXES = {"train": ("train",), "test": ("t10k", "test")}
CHUNK = 2**20
_UNSIGNED_BYTES = 0x08


def read_idx(path: Path, split: SplitName = "train") -> ImageSet:
    """Return the images of a folder such as MNIST's, or of one images file; grey becomes RGB.

    Labels come from the file of the same name with `labels` instead of `images`, if it exists.
    """
    name = f"idx:{path}"
    if path.is_dir():
        name = f"{name}#{split}"
        path = _find_images_file(path, split)
    grey = _read_array(path, 3)
    images = np.repeat(grey[:, None], 3, axis=1)
    labels_path = _labels_path(path)
    if labels_path is None:
        return image_set(images, None, (), name)
    labels = _read_array(labels_path, 1)
    if len(labels) != len(images):
        raise DataError(
            f"{path} has {len(images)} images but {labels_path} has {len(labels)} labels; "
            f"give files that belong together"
        )
    encoded = encode_labels(labels)
    return image_set(images, encoded.labels, encoded.classes, name)


def idx_images(folder: Path, prefixes: Sequence[str]) -> list[Path]:
    """Return the images files of a folder, such as train-images-idx3-ubyte for the prefix "train".

    The name of a data set may come first, as in emnist-letters-train-images-idx3-ubyte.
    """
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file()
        and any(
            path.name.startswith(f"{prefix}-images") or f"-{prefix}-images" in path.name
            for prefix in prefixes
        )
        and path.name.removesuffix(".gz").endswith("idx3-ubyte")
    )


def _find_images_file(folder: Path, split: SplitName) -> Path:
    found = idx_images(folder, PREFIXES[split])
    plain = [path for path in found if path.suffix != ".gz"]
    if len(plain) == 1 and {path.name.removesuffix(".gz") for path in found} == {plain[0].name}:
        found = plain  # the other one is the same file, compressed
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise DataError(f"{folder} has several {split} sets ({names}); give one of these files")
    other: SplitName = "test" if split == "train" else "train"
    advice = "give the folder that holds it"
    if idx_images(folder, PREFIXES[other]):
        advice = f"read the {other} images as idx:{folder}#{other}"
    raise DataError(f"{folder} has no {PREFIXES[split][0]}-images-idx3-ubyte or .gz; {advice}")


def _labels_path(images: Path) -> Path | None:
    name = images.name.replace("images", "labels").replace("idx3", "idx1")
    plain = name.removesuffix(".gz")
    candidates = (images.with_name(plain), images.with_name(f"{plain}.gz"))
    return next((path for path in candidates if path != images and path.is_file()), None)


def _read_array(path: Path, dims: int) -> UInt8[np.ndarray, "..."]:
    """Return the array in a file: a magic number, the size of each dimension, then the bytes."""
    try:
        with open_regular(path) as file:
            stored = os.fstat(file.fileno()).st_size
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            return _parse_array(stream, path, dims, stored)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path} ({error}); get it from its authors") from error


def _parse_array(
    stream: gzip.GzipFile | BinaryIO, path: Path, dims: int, stored: int
) -> UInt8[np.ndarray, "..."]:
    header = stream.read(4 + 4 * dims)
    if len(header) < 4 + 4 * dims or header[:4] != bytes((0, 0, _UNSIGNED_BYTES, dims)):
        raise DataError(
            f"{path} starts with {header[:4].hex(' ') or 'nothing'}, not with the "
            f"00 00 08 {dims:02x} of an idx file of bytes in {dims} dimensions; "
            f"give another file, or another scheme"
        )
    shape = struct.unpack(f">{dims}I", header[4:])
    size = math.prod(shape)
    told = f"{path} says it holds {' x '.join(map(str, shape))} = {size} bytes"
    if size == 0:
        raise DataError(f"{told}: nothing; give a file that holds some")
    if not is_plausible(size, stored):
        raise DataError(
            f"{told}, too many for a file of {stored} bytes; get it from its authors, or unpack it"
        )
    held = 0
    flat = np.empty(size, np.uint8)
    while part := stream.read(CHUNK):
        if held + len(part) > size:
            raise DataError(f"{told} but has more; get it from its authors")
        flat[held : held + len(part)] = np.frombuffer(part, np.uint8)
        held += len(part)
    if held < size:
        raise DataError(f"{told} but has {held}; get it from its authors")
    return flat.reshape(shape)
