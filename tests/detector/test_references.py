import io

import numpy as np
import pytest
import torch
from PIL import Image

from oddone.detector import References
from oddone.detector.references import THUMBNAIL_PIXELS, as_thumbnail
from oddone.errors import ArtifactError, SettingsError


def a_gradient(size: int) -> np.ndarray:
    """Return a smooth picture, which JPEG keeps well."""
    ramp = np.linspace(0, 255, size).astype(np.uint8)
    return np.stack(np.broadcast_arrays(ramp[:, None], ramp, ramp[::-1]))


def jpeg(width: int, height: int, kind: str = "JPEG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, kind)
    return file.getvalue()


def references_of(embeddings: torch.Tensor, thumbnail: bytes | None = None) -> References:
    count = len(embeddings)
    pictures = (as_thumbnail(a_gradient(16)) if thumbnail is None else thumbnail,) * count
    paths = tuple(f"picture {number}" for number in range(count))
    return References(embeddings.half(), torch.arange(count) % 3, paths, pictures)


def test_neighbours_are_the_most_similar_by_a_slow_search() -> None:
    generator = torch.Generator().manual_seed(0)
    known, new = (
        torch.nn.functional.normalize(torch.randn(rows, 5, generator=generator), dim=1)
        for rows in (20, 4)
    )
    known = known.half().float()  # as it is kept
    found = references_of(known).nearest(new, 6)
    for embedding, neighbours in zip(new, found, strict=True):
        cosines = {number: float(embedding @ known[number]) for number in range(20)}
        best = sorted(cosines, key=cosines.__getitem__, reverse=True)[:6]
        assert [neighbour.path for neighbour in neighbours] == [f"picture {n}" for n in best]
        assert [neighbour.label for neighbour in neighbours] == [n % 3 for n in best]
        similarities = [neighbour.similarity for neighbour in neighbours]
        assert similarities == pytest.approx([cosines[n] for n in best])
        assert similarities == sorted(similarities, reverse=True)


def test_a_similarity_is_a_cosine_even_after_rounding() -> None:
    embedding = torch.full((1, 3), 3**-0.5)
    itself, opposite = references_of(torch.cat([embedding, -embedding]) * 1.001).nearest(
        embedding, 2
    )[0]
    assert (itself.similarity, opposite.similarity) == (1, -1)


def test_there_are_no_more_neighbours_than_references_and_none_is_a_choice() -> None:
    references = references_of(torch.eye(3))
    assert [len(near) for near in references.nearest(torch.eye(3)[:2], 9)] == [3, 3]
    assert references.nearest(torch.eye(3)[:2], 0) == [(), ()]
    assert references.nearest(torch.empty(0, 3), 2) == []
    with pytest.raises(SettingsError, match="neighbours=-1: choose 0 or more"):
        references.nearest(torch.eye(3), -1)


@pytest.mark.parametrize("size", [16, 64, 200])
def test_a_thumbnail_shows_the_picture_and_is_small(size: int) -> None:
    picture = a_gradient(size)
    references = references_of(torch.eye(2), as_thumbnail(picture))
    thumbnail = references.nearest(torch.eye(2), 1)[0][0].thumbnail
    side = min(size, THUMBNAIL_PIXELS)
    assert thumbnail.shape == (side, side, 3)
    apart = thumbnail.mean(axis=(0, 1)) - picture.mean(axis=(1, 2))
    assert np.abs(apart).max() < 3
    assert np.abs(thumbnail[0, 0] - picture[:, 0, 0].astype(int)).max() < 30


@pytest.mark.parametrize(
    ("thumbnail", "message"),
    [
        (jpeg(65, 8), "65 x 8 pixels, and more than 64 are not read"),
        (jpeg(8, 20_000), "8 x 20000 pixels"),
        (jpeg(8, 8, "PNG"), "is no JPEG"),
        (jpeg(64, 64)[:-200], "is no JPEG"),
        (b"", "is no JPEG"),
    ],
)
def test_a_thumbnail_that_oddone_did_not_make_is_refused(thumbnail: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        references_of(torch.eye(2), thumbnail).nearest(torch.eye(2), 1)
