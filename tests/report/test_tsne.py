import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of
from matplotlib.figure import Figure

from oddone.report.tsne import MIN_POINTS, TSNEPanel, draw_tsne, tsne_points

CLASSES = ("cat", "dog", "a class with a very long name")


def panel(name: str = "mcl", classes: int = 3) -> TSNEPanel:
    generator = np.random.default_rng(0)
    labels = np.arange(40) % (classes + 1) - 1
    return TSNEPanel(name, generator.normal(size=(40, 2)), labels)


def points_of(figure: Figure, marker: str) -> list[np.ndarray]:
    lines = [line for line in figure.axes[0].lines if line.get_marker() == marker]
    return [line.get_xydata() for line in lines]


def test_groups_that_are_far_apart_stay_apart() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    embeddings = generator.normal(size=(60, 8)) + 40 * np.eye(8)[labels]
    points = tsne_points(embeddings.astype(np.float32), seed=0)
    distances = np.linalg.norm(points[:, None] - points, axis=2) + np.diag(np.full(60, np.inf))
    assert (labels[distances.argmin(axis=1)] == labels).all()


def test_the_same_seed_lays_them_out_the_same() -> None:
    embeddings = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.testing.assert_array_equal(tsne_points(embeddings, 1), tsne_points(embeddings, 1))


def test_the_fewest_points_can_be_laid_out() -> None:
    assert tsne_points(np.eye(MIN_POINTS, dtype=np.float32), 0).shape == (MIN_POINTS, 2)


@pytest.mark.parametrize(
    "embeddings",
    [np.ones((10, 8)), np.ones((MIN_POINTS, 8)), np.arange(12.0)[:, None]],
    ids=["all the same", "the fewest, all the same", "one number each"],
)
def test_points_without_two_axes_are_laid_out_too(embeddings: np.ndarray) -> None:
    points = tsne_points(embeddings.astype(np.float32), 0)
    assert points.shape == (len(embeddings), 2)
    assert np.isfinite(points).all()


def test_every_point_is_drawn_and_ood_points_are_crosses() -> None:
    one = panel()
    figure = draw_tsne([one], CLASSES)
    (crosses,) = points_of(figure, "x")
    np.testing.assert_array_equal(crosses, one.points[one.labels == -1])
    (dogs,) = points_of(figure, "s")
    np.testing.assert_array_equal(dogs, one.points[one.labels == 1])
    assert keys_of(figure) == ["cat", "dog", "a clas…g name", "OOD"]
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("first t-SNE axis", "second t-SNE axis")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_detectors_stand_side_by_side_with_their_names(count: int) -> None:
    names = [f"detector {index}" for index in range(count)]
    figure = draw_tsne([panel(name) for name in names], CLASSES)
    assert [text.get_text() for text in figure.texts] == (names if count > 1 else [])
    assert len({axes.get_position().y0 for axes in figure.axes}) == 1
    check_layout(figure)


def test_ten_classes_differ_by_colour_and_have_room() -> None:
    names = [f"class {label}" for label in range(10)]
    figure = draw_tsne([panel(classes=10)], names)
    assert len({line.get_color() for line in figure.axes[0].lines}) == 11
    check_layout(figure)


def test_of_very_many_classes_only_the_number_is_said() -> None:
    figure = draw_tsne([panel(classes=30)], [f"class {label}" for label in range(30)])
    assert keys_of(figure) == ["30 classes", "OOD"]


def test_without_ood_images_none_are_explained() -> None:
    one = panel()
    known = one.labels >= 0
    figure = draw_tsne([one._replace(points=one.points[known], labels=one.labels[known])], CLASSES)
    assert "OOD" not in words_of(figure)
