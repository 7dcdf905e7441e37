"""Images from NumPy files (.npz, .npy), and helpers for all sources that give arrays."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64, Integer, Shaped, UInt8
from PIL import Image

from oddone.data.decode import central_square, in_parallel
from oddone.data.image_set import ImageSet
from oddone.data.npy_file import map_npy, read_npz
from oddone.errors import DataError
from oddone.progress import Progress

BYTES_AT_ONCE = 16 * 2**20  # of images that are converted or hashed at a time


class EncodedLabels(NamedTuple):
    """Labels as numbers from 0 to classes - 1, and the name of each class."""

    labels: Int64[np.ndarray, " images"]
    classes: tuple[str, ...]


def read_arrays(path: Path) -> ImageSet:
    """Return the images of a .npz file (`images`, perhaps `labels` and `classes`) or a .npy file.

    Images are uint8, or floats from 0 to 1: N x H x W x 3, N x 3 x H x W, or grey N x H x W.
    Labels are numbers or strings of any values; all -1 means none.
    """
    arrays = _load_arrays(path)
    if arrays["images"].shape[:1] == (0,):
        raise DataError(f"{path} holds 0 images; save at least one")
    images = as_pixels(arrays["images"], str(path))
    labels, names = arrays.get("labels"), arrays.get("classes")
    if labels is None:
        return image_set(images, None, (), f"arrays:{path}")
    if labels.shape != (len(images),):
        raise DataError(
            f"{path} holds {len(images)} images but labels of shape {labels.shape}; "
            f"save one label per image"
        )
    if labels.dtype.kind not in "iuUSb":
        raise DataError(f"labels of {path} are {labels.dtype}; save integers or strings")
    if labels.dtype.kind == "i" and (labels == -1).all():
        return image_set(images, None, (), f"arrays:{path}")
    encoded = encode_labels(labels) if names is None else _encode_by_names(labels, names, path)
    return image_set(images, encoded.labels, encoded.classes, f"arrays:{path}")


def as_pixels(images: np.ndarray, name: str) -> UInt8[np.ndarray, "images 3 height width"]:
    """Return images in any layout that `read_arrays` takes as uint8, channels first.

    Error messages call them by `name`.
    """
    return _channels_first(_as_bytes(images, name), name)


def image_set(
    images: UInt8[np.ndarray, "images 3 height width"],
    labels: Integer[np.ndarray, " images"] | None,
    classes: Sequence[str],
    name: str,
) -> ImageSet:
    """Return an ImageSet with paths such as "name[0]", where `name` is that of the source.

    Without labels, all labels are -1.
    """
    if labels is None:
        labels = np.full(len(images), -1)
    labels = labels.astype(np.int64)
    return ImageSet(
        images=images,
        labels=labels,
        classes=tuple(classes),
        paths=tuple(f"{name}[{i}]" for i in range(len(images))),
        fingerprint=_fingerprint(images, labels, classes),
    )


def encode_labels(values: Shaped[np.ndarray, " images"]) -> EncodedLabels:
    """Return numbers or strings as labels from 0, where the sorted values become the class names.

    It is what scikit-learn's LabelEncoder does.
    """
    distinct, labels = np.unique(values, return_inverse=True)
    classes = tuple(_text(value) for value in distinct.tolist())
    return EncodedLabels(labels.astype(np.int64), classes)


def resize_images(
    native: ImageSet, size: int | None = None, progress: Progress | None = None
) -> ImageSet:
    """Return the set with square images of `size` pixels, resized with antialiasing.

    By default the size is the shorter side of the images. Images that have this size already are
    not copied.
    """
    height, width = native.images.shape[2:]
    size = min(height, width) if size is None else size
    if height == width == size:
        return native
    images = np.empty((len(native), 3, size, size), dtype=np.uint8)

    def fill(i: int) -> None:
        image = Image.fromarray(np.ascontiguousarray(native.images[i].transpose(1, 2, 0)))
        images[i] = np.asarray(central_square(image, size)).transpose(2, 0, 1)

    for _ in in_parallel(fill, range(len(native)), progress, f"resizing to {size}"):
        pass
    fingerprint = hashlib.sha256(f"{native.fingerprint} {size}".encode()).hexdigest()[:16]
    enlarged = len(native) if size > min(height, width) else native.enlarged
    return replace(native, images=images, fingerprint=fingerprint, enlarged=enlarged)


def to_picture(pixels: np.ndarray) -> Image.Image:
    """Return an array of [height, width, 3], or grey [height, width], as a PIL image in RGB."""
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise DataError(
            f"an image has shape {pixels.shape}; pass [height, width, 3], or grey [height, width]"
        )
    if pixels.dtype.kind == "f" and pixels.size and pixels.min() >= 0 and pixels.max() <= 1:
        pixels = np.rint(pixels * 255).astype(np.uint8)
    if pixels.dtype != np.uint8 or 0 in pixels.shape:
        raise DataError(
            f"an image is {pixels.dtype} of shape {pixels.shape}; pass uint8, or floats from 0 to 1"
        )
    return Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the file by name. Pickled objects are refused."""
    if path.suffix.lower() == ".npy":
        return {"images": map_npy(path)}
    held = read_npz(path, ("images", "labels", "classes"))
    if "images" not in held:
        names = ", ".join(sorted(held)) or "nothing"
        raise DataError(f"{path} holds {names} but no `images`; save the images by that name")
    return {name: array for name, array in held.items() if array is not None}


def _as_bytes(images: np.ndarray, name: str) -> np.ndarray:
    if images.dtype == np.uint8:
        return images
    if 0 in images.shape or images.ndim == 0:
        raise DataError(f"images of {name} have shape {images.shape}; give at least a pixel")
    if images.dtype.kind != "f":
        raise DataError(
            f"images of {name} are {images.dtype}; give uint8 from 0 to 255 or floats from 0 to 1"
        )
    converted = np.empty(images.shape, dtype=np.uint8)
    for some in _slices(images):
        part = images[some]
        if not (part.min() >= 0 and part.max() <= 1):  # this refuses not-a-number too
            raise DataError(
                f"images of {name} are floats from {part.min():g} to {part.max():g}; "
                f"bring them to 0 to 1, or give uint8 from 0 to 255"
            )
        converted[some] = np.rint(part * 255)
    return converted


def _channels_first(images: np.ndarray, name: str) -> UInt8[np.ndarray, "images 3 height width"]:
    shape = images.shape
    if 0 in shape[1:]:
        raise DataError(f"images of {name} have shape {shape}; give images of at least a pixel")
    if len(shape) == 4 and shape[3] == 3:
        return images.transpose(0, 3, 1, 2)  # a view: a memory map stays on disk
    if len(shape) == 4 and shape[1] == 3:
        return images
    if len(shape) == 3 and shape[2] == 3:
        raise DataError(
            f"images of {name} have shape {shape}, which is one image; give 1 x H x W x 3, as "
            f"image[None] is, or grey images of another width"
        )
    if len(shape) == 3:
        return np.repeat(images[:, None], 3, axis=1)
    if len(shape) == 4 and 1 in (shape[1], shape[3]):
        grey = images[:, :, :, 0] if shape[3] == 1 else images[:, 0]
        return np.repeat(grey[:, None], 3, axis=1)
    raise DataError(
        f"images of {name} have shape {shape}; "
        f"give them as N x H x W x 3, N x 3 x H x W, or grey N x H x W"
    )


def _encode_by_names(labels: np.ndarray, names: np.ndarray, path: Path) -> EncodedLabels:
    """Return labels, which are numbers or names of these classes, as numbers of the classes."""
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise DataError(
            f"classes of {path} are {names.dtype} of shape {names.shape}; save a list of strings"
        )
    classes = tuple(_text(name) for name in names.tolist())
    if len(set(classes)) < len(classes):
        raise DataError(f"classes of {path} hold a name twice; name each class once")
    if labels.dtype.kind in "US":
        index = {name: label for label, name in enumerate(classes)}
        numbers = np.array([index.get(_text(label), -1) for label in labels.tolist()])
    else:
        numbers = labels.astype(np.int64)
    outside: Bool[np.ndarray, " images"] = (numbers < 0) | (numbers >= len(classes))
    if outside.any():
        raise DataError(
            f"labels of {path} hold {labels[outside].tolist()[0]!r}, which is none of its "
            f"{len(classes)} classes; add its name to `classes` or leave `classes` out"
        )
    return EncodedLabels(numbers, classes)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _fingerprint(images: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> str:
    digest = hashlib.sha256(json.dumps([images.shape, list(classes)]).encode())
    for some in _slices(images):
        digest.update(np.ascontiguousarray(images[some]).data)
    digest.update(labels.data)
    return digest.hexdigest()[:16]


def _slices(images: np.ndarray) -> Iterator[slice]:
    """Yield slices that together are all images, of not too many bytes each."""
    step = max(1, BYTES_AT_ONCE // max(1, images[:1].nbytes))
    for start in range(0, len(images), step):
        yield slice(start, start + step)
