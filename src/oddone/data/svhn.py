"""Street View House Numbers: the cropped digits, `train_32x32.mat` and `test_32x32.mat`."""

from pathlib import Path

import numpy as np

from oddone.data.arrays import image_set
from oddone.data.image_set import ImageSet, SplitName
from oddone.data.mat_file import read_mat_arrays
from oddone.errors import DataError


def read_svhn(path: Path, split: SplitName = "train") -> ImageSet:
    """Return a split of the folder with the two .mat files, or all images of one .mat file."""
    if path.is_file():
        return _read(path, f"svhn:{path}")
    file = path / f"{split}_32x32.mat"
    if not file.is_file():
        other = "test" if split == "train" else "train"
        if (path / f"{other}_32x32.mat").is_file():
            advice = f"read the {other} images as svhn:{path}#{other}"
        else:
            advice = "give the folder that holds it"
        raise DataError(f"{path} has no {file.name}; {advice}")
    return _read(file, f"svhn:{path}#{split}")


def _read(file: Path, name: str) -> ImageSet:
    held = read_mat_arrays(file, ("X", "y"))
    images, labels = held.get("X"), held.get("y")
    if images is None or labels is None:
        raise DataError(f"{file} has no X and y; get it from its authors")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise DataError(
            f"X of {file} is {images.dtype} of shape {images.shape}, not uint8 of 32 x 32 x 3 x N; "
            f"get it from its authors"
        )
    if images.size == 0:
        raise DataError(f"X of {file} has shape {images.shape}, no pixel; get it from its authors")
    labels = labels.reshape(-1)
    if len(labels) != images.shape[3]:
        raise DataError(
            f"{file} has {images.shape[3]} images but {len(labels)} labels; get it from its authors"
        )
    if not np.isin(labels, range(11)).all():
        raise DataError(f"y of {file} holds other labels than 1 to 10; get it from its authors")
    digits = labels.astype(np.int64) % 10  # in the files, the label of the digit 0 is 10
    channels_first = np.ascontiguousarray(images.transpose(3, 2, 0, 1))  # Matlab's come last
    return image_set(channels_first, digits, tuple("0123456789"), name)
