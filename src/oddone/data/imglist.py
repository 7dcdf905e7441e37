"""Image lists in OpenOOD's format: a path and a label on each line."""

import re
from pathlib import Path

import numpy as np

from oddone.data.arrays import encode_labels
from oddone.data.cache import ListedFile, Listing
from oddone.data.folder import list_files, read_listing
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.errors import DataError
from oddone.files import open_regular
from oddone.progress import Progress

_LABEL = re.compile(r"-1|0*[0-9]{1,9}")


def read_imglist(
    path: Path,
    root: Path | None = None,
    *,
    size: int | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> ImageSet:
    """Return the listed images. Their paths are relative to the root, or to the list's folder.

    The label -1 means no label; OpenOOD writes it for OOD images.
    """
    root = path.parent if root is None else root
    names, values = parse_imglist(path)
    labelled = values >= 0
    labels = np.full(len(values), -1, dtype=np.int64)
    labels[labelled], classes = encode_labels(values[labelled])
    files: list[ListedFile] = []
    skipped: list[BrokenFile] = []
    list_files(root, zip(names, labels.tolist(), strict=True), files, skipped)
    if not files:
        raise DataError(
            f"none of the {len(names)} files that {path} lists is below {root} "
            f"(the first would be {root / names[0]}); name the folder that the paths are "
            f"relative to, as imglist:{path}@FOLDER"
        )
    listing = Listing(root, tuple(files), classes, tuple(skipped))
    return read_listing(listing, size=size, strict=strict, progress=progress)


def parse_imglist(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the file names in the list, and their labels."""
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}; name a list that you may read"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file; give a list of `path label` lines") from error
    names, labels = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not _LABEL.fullmatch(label):
            raise DataError(
                f"line {number} of {path} is {line[:80]!r}; write a path, a space, and the label "
                f"as a number from 0 to 999999999 (or -1 for none)"
            )
        names.append(name.strip())
        labels.append(int(label))
    if not names:
        raise DataError(f"{path} lists no images; write one `path label` per line")
    return names, np.array(labels, dtype=np.int64)
