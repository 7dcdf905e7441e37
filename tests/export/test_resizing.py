"""Resizing as products of matrices, compared with Pillow's."""

import numpy as np
import PIL
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from oddone.data.decode import central_square as square_by_pillow
from oddone.export.onnx_model import converted
from oddone.export.resizing import central_square

PILLOW_13 = int(PIL.__version__.split(".")[0]) >= 13


def both(height: int, width: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an image of noise resized by us and by Pillow."""
    pixels = np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)
    ours = central_square(torch.from_numpy(pixels), size)[0]
    theirs = np.asarray(square_by_pillow(Image.fromarray(pixels[0]), size)).transpose(2, 0, 1)
    return ours.numpy(), theirs


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [
        (32, 32, 32),
        (16, 16, 32),
        (28, 28, 32),
        (20, 31, 32),
        (41, 64, 32),
        (7, 300, 16),
        (1, 1, 8),
        (500, 641, 128),
    ],
)
def test_a_wide_image_is_resized_to_the_bytes_of_pillow(height: int, width: int, size: int) -> None:
    ours, theirs = both(height, width, size)
    assert (ours == theirs).all()


@pytest.mark.skipif(not PILLOW_13, reason="before 13, Pillow reduced the width of these first")
@pytest.mark.parametrize("height", [40, 48, 49, 50, 200, 1000])
def test_a_tall_image_is_resized_to_the_bytes_of_pillow(height: int) -> None:
    ours, theirs = both(height, 40, 32)
    assert (ours == theirs).all()


def test_a_tall_image_is_at_most_one_level_off_whatever_pillow_does_first() -> None:
    ours, theirs = both(90, 40, 32)
    assert abs(ours - theirs).max() <= 1


class Square(nn.Module):
    """The resizing alone, to be exported."""

    def forward(self, images: Tensor) -> list[Tensor]:
        return [central_square(images, 224)]


@pytest.mark.skipif(not PILLOW_13, reason="before 13, Pillow reduced the width of these first")
def test_an_exported_graph_resizes_to_the_bytes_of_pillow() -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="oddone[onnx] is not installed")
    axes = {axis: torch.export.Dim(f"axis{axis}", min=2) for axis in (1, 2)}
    example = torch.zeros(1, 30, 40, 3, dtype=torch.uint8)
    program = torch.export.export(Square(), (example,), dynamic_shapes=(axes,), strict=False)
    session = onnxruntime.InferenceSession(converted(program, ["square"]).SerializeToString())
    for height, width in ((262, 300), (300, 262), (225, 500), (1000, 333), (100, 131)):
        pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        (ours,) = session.run(None, {session.get_inputs()[0].name: pixels[None]})
        theirs = np.asarray(square_by_pillow(Image.fromarray(pixels), 224)).transpose(2, 0, 1)
        assert (ours[0] == theirs).all(), f"{height} x {width}"
