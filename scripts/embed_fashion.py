"""Make the images that ship inside the package, from the official files of Fashion-MNIST.

    python scripts/embed_fashion.py FOLDER

FOLDER holds the four idx files, gzipped as published (train-images-idx3-ubyte.gz and so on; the
Debian package `dataset-fashion-mnist` has them too). Takes the first 600 training and the first
200 test images of each class, in the official order. The same files make the same bytes, given
one version of zlib.
"""

import gzip
import sys
from pathlib import Path

import numpy as np

EMBEDDED = Path(__file__).parents[1] / "src" / "oddone" / "data" / "fashion.npz"
CLASSES = 10


def embed(folder: Path, target: Path) -> None:
    """Write the chosen images and labels of both splits to one compressed file."""
    arrays: dict[str, np.ndarray] = {}
    for split, published, per_class in (("train", "train", 600), ("test", "t10k", 200)):
        images = read_idx(folder / f"{published}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{published}-labels-idx1-ubyte.gz")
        chosen = first_of_each_class(labels, per_class)
        arrays[f"{split}_images"] = images[chosen]
        arrays[f"{split}_labels"] = labels[chosen]
    np.savez_compressed(target, allow_pickle=False, **arrays)


def read_idx(path: Path) -> np.ndarray:
    """Return the array of bytes in a gzipped idx file."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is no idx file of bytes; take the files as published")
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", count=dimensions, offset=4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def first_of_each_class(labels: np.ndarray, per_class: int) -> np.ndarray:
    """Return where the first images of each class are, in ascending order."""
    members = [np.flatnonzero(labels == label)[:per_class] for label in range(CLASSES)]
    return np.sort(np.concatenate(members))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/embed_fashion.py FOLDER")
    embed(Path(sys.argv[1]), EMBEDDED)
    print(f"{EMBEDDED.name}: {EMBEDDED.stat().st_size:,} bytes")
