"""The figures that show images: cases, views, artefacts."""

from pathlib import Path

import numpy as np
import pytest
from figures_looked_at import axes_of, check_layout, words_of
from matplotlib.colors import same_color
from PIL import Image

from oddone.detector.views import View
from oddone.report.cases import CaptionedImage, Case, draw_cases
from oddone.report.resize_artefacts import ResizedImage, ResizedPair, draw_artefacts
from oddone.report.style import ANOMALOUS
from oddone.report.views import ImageViews, draw_views


def picture(seed: int, side: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def case(neighbours: int = 3, name: str = "svhn") -> Case:
    near = [CaptionedImage(picture(index), f"class {index}", f"note {index}") for index in range(9)]
    return Case(CaptionedImage(picture(99), name, "→ cat"), near[:neighbours], f"photos/{name}.jpg")


def test_each_case_is_a_row_with_the_image_and_its_neighbours() -> None:
    figure = draw_cases([case(), case()], "OOD image", ANOMALOUS)
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    expected = [picture(99), picture(0), picture(1), picture(2)]
    np.testing.assert_array_equal(np.stack(shown), np.stack(expected * 2))
    words = words_of(figure)
    assert words[:2] == ["OOD image", "training images that look most like it"]
    assert words[2:11] == [
        "photos/svhn.jpg", "svhn", "→ cat", "class 0", "note 0", "class 1", "note 1", "class 2",
        "note 2",
    ]  # fmt: skip
    frames = axes_of(figure, "frame")
    assert len(frames) == 2
    assert all(same_color(frame.spines.left.get_edgecolor(), ANOMALOUS) for frame in frames)


@pytest.mark.parametrize(("given", "shown"), [(0, 1), (2, 3), (9, 4)])
def test_at_most_three_neighbours_are_shown(given: int, shown: int) -> None:
    figure = draw_cases([case(given)], "OOD image", ANOMALOUS)
    assert len([axes for axes in figure.axes if axes.images]) == shown


def test_long_names_do_not_run_into_each_other() -> None:
    check_layout(
        draw_cases([case(name="a very long name of an OOD set " * 3)], "OOD image", ANOMALOUS)
    )


@pytest.mark.parametrize("count", [1, 4, 8])
def test_every_view_has_its_name_and_distance(count: int) -> None:
    views = [View(f"turned {index}", picture(index), 1.5 + index) for index in range(count)]
    figure = draw_views(
        [ImageViews("A test image", 3.25, views), ImageViews("An OOD image", 9.5, views)]
    )
    shown = [axes.images[0].get_array() for axes in axes_of(figure, "view")]
    np.testing.assert_array_equal(np.stack(shown), np.stack([view.picture for view in views] * 2))
    words = words_of(figure)
    assert words[:2] == ["A test image", "score of all views together: 3.25"]
    for view in views:
        assert words[words.index(view.name) + 1] == f"distance {view.distance:.2f}"
    check_layout(figure)


def test_pictures_stand_antialiased_above_aliased() -> None:
    pictures = [
        ResizedPair(
            ResizedImage(picture(index), 1.0 * index),
            ResizedImage(picture(10 + index), 10.0 + index),
        )
        for index in range(6)
    ]
    figure = draw_artefacts(pictures)
    fixed, aliased = axes_of(figure, "antialiased"), axes_of(figure, "aliased: pixels dropped")
    for index, both in enumerate(pictures):
        above, below = fixed[index], aliased[index]
        np.testing.assert_array_equal(above.images[0].get_array(), both.antialiased.picture)
        np.testing.assert_array_equal(below.images[0].get_array(), both.aliased.picture)
        assert above.get_position().x0 == below.get_position().x0
        assert above.get_position().y0 > below.get_position().y0
    assert {"score 0.00", "score 5.00", "score 10.00", "score 15.00"} < set(words_of(figure))
    check_layout(figure)


def test_small_pictures_are_enlarged_without_blur(tmp_path: Path) -> None:
    figure = draw_views([ImageViews("An image", 1.0, [View("as it is", picture(0, 2), 1.0)])])
    figure.savefig(tmp_path / "views.png")
    with Image.open(tmp_path / "views.png") as drawn:
        pixels = np.asarray(drawn.convert("RGB")).reshape(-1, 3)
    for colour in picture(0, 2).reshape(-1, 3):
        assert (pixels == colour).all(axis=1).sum() > 1000
