"""The images inside the package: 6,000 + 2,000 of Fashion-MNIST, so that everything runs offline.

`scripts/embed_fashion.py` made the file `fashion.npz`; its licence is in the same folder.
"""

import hashlib
from pathlib import Path

import numpy as np

from oddone.data.image_set import ImageSet, SplitName
from oddone.errors import DataError

EMBEDDED = Path(__file__).with_name("fashion.npz")
CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
UNSEEN = ("sneaker", "bag")
PARTS: dict[str, tuple[str, ...]] = {
    "": CLASSES,
    "known": tuple(name for name in CLASSES if name not in UNSEEN),
    "unseen": UNSEEN,
}
SPLITS = ("train", "test")


def read_fashion(part: str, split: SplitName) -> ImageSet:
    """Return one split of the embedded images, grey repeated to three channels.

    The part "known" is eight garments to learn, "unseen" is the other two (sneaker and bag), and
    "" is all ten. Labels count from 0 in each part.
    """
    if part not in PARTS:
        raise DataError(
            f"fashion:{part}: there is no part {part!r}; write fashion, fashion:known (eight "
            f"garments) or fashion:unseen ({' and '.join(UNSEEN)})"
        )
    if split not in SPLITS:
        raise DataError(f"fashion has no split {split!r}; choose {' or '.join(SPLITS)}")
    classes = PARTS[part]
    with np.load(EMBEDDED, allow_pickle=False) as arrays:
        grey, official = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    labels = _labels_among(classes)[official]
    members = labels >= 0
    name = f"fashion:{part}" if part else "fashion"
    return ImageSet(
        images=np.repeat(grey[members][:, None], 3, axis=1),
        labels=labels[members],
        classes=classes,
        paths=[f"{name}#{split}[{index}]" for index in range(members.sum())],
        fingerprint=_fingerprint(part, split),
    )


def _labels_among(classes: tuple[str, ...]) -> np.ndarray:
    """Return for each of the ten official labels its label among these classes, or -1."""
    return np.array(
        [classes.index(name) if name in classes else -1 for name in CLASSES], dtype=np.int64
    )


def _fingerprint(part: str, split: str) -> str:
    content = hashlib.sha256(EMBEDDED.read_bytes())
    content.update(f"{part}#{split}".encode())
    return content.hexdigest()[:16]
