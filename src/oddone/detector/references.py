"""Training images that a detector remembers, to show what a new image looks like to it."""

import io
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float16, Int, Int64, UInt8
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from oddone.data import ImageSet
from oddone.detector.fitting import choose_evenly
from oddone.errors import ArtifactError, SettingsError
from oddone.rng import stream
from oddone.verdict import Neighbour

THUMBNAIL_PIXELS = 64
JPEG_QUALITY = 90
LOOKED_UP = 500
"""Of how many images it is looked up whether they are known."""


@dataclass(frozen=True, eq=False)
class References:
    """Embeddings, labels, paths and small pictures of some training images."""

    embeddings: Float16[Tensor, "references dim"]
    """The upright images in the head's space, of unit length."""
    labels: Int64[Tensor, " references"]
    paths: tuple[str, ...]
    thumbnails: tuple[bytes, ...]
    """JPEG files."""

    @staticmethod
    def of(
        embeddings: Float[Tensor, "references dim"],
        source: ImageSet,
        indices: Int[np.ndarray, " references"],
    ) -> "References":
        """Return the images of a set that have these indices and embeddings."""
        return References(
            embeddings.half().cpu(),
            torch.from_numpy(source.labels[indices]),
            tuple(source.paths[index] for index in indices),
            tuple(as_thumbnail(source.images[index]) for index in indices),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def share_of(self, source: ImageSet) -> float:
        """Return which share of some images of a set are among these, by their small pictures."""
        chosen = choose_evenly(source.labels, LOOKED_UP, generator=stream(0, "look up"))
        known = set(self.thumbnails)
        found = [as_thumbnail(source.images[index]) in known for index in chosen]
        return sum(found) / max(1, len(found))

    def nearest(
        self, embeddings: Float[Tensor, "images dim"], count: int
    ) -> list[tuple[Neighbour, ...]]:
        """Return for each image its most similar references, the most similar first."""
        if count < 0:
            raise SettingsError(f"neighbours={count}: choose 0 or more")
        if count == 0:
            return [()] * len(embeddings)
        similarity = embeddings.float().cpu() @ self.embeddings.float().mT
        best = similarity.clamp(-1, 1).topk(min(count, len(self)), dim=1)
        return [
            tuple(self._neighbour(index, cosine) for index, cosine in zip(*row, strict=True))
            for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _neighbour(self, index: int, similarity: float) -> Neighbour:
        thumbnail = _pixels(self.thumbnails[index])
        return Neighbour(int(self.labels[index]), self.paths[index], similarity, thumbnail)


def as_thumbnail(image: UInt8[np.ndarray, "3 height width"]) -> bytes:
    """Return a picture as a small JPEG file."""
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    picture.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def _pixels(thumbnail: bytes) -> UInt8[np.ndarray, "height width 3"]:
    """Return a thumbnail as an array; a file from somebody else may hold anything here."""
    try:
        # Image.open would look at the size itself, and of a gigantic picture merely warn.
        with JpegImageFile(io.BytesIO(thumbnail)) as picture:
            width, height = picture.size
            if max(width, height) > THUMBNAIL_PIXELS:
                raise ArtifactError(
                    f"a thumbnail in the detector has {width} x {height} pixels, and more than "
                    f"{THUMBNAIL_PIXELS} are not read; make the detector anew"
                )
            return np.asarray(picture.convert("RGB"))
    except (SyntaxError, OSError) as error:
        raise ArtifactError(
            f"a thumbnail in the detector is no JPEG ({error}); make the detector anew"
        ) from error
