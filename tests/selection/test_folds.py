from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from oddone.rng import stream
from oddone.selection import Fold, folds_of_classes, folds_of_images
from oddone.selection.folds import IMAGE_FOLDS, LEAST_FOLDS, MOST_FOLDS

labels_of_images = st.lists(st.integers(0, 14), min_size=1, max_size=60).map(
    lambda labels: np.array(labels, dtype=np.int64)
)
seeds = st.integers(0, 1000)


def times(folds: list[Fold], part: str, images: int) -> np.ndarray:
    """Return how often each image is in this part of a fold."""
    return sum((np.bincount(getattr(f, part), minlength=images) for f in folds), np.zeros(images))


def assert_divided(folds: list[Fold], images: int) -> None:
    """Assert that each fold has every image once, in ascending order, and is of some use."""
    for fold in folds:
        assert np.array_equal(np.sort(np.concatenate(fold)), np.arange(images))
        assert all((np.diff(part) > 0).all() for part in fold)
        assert len(fold.held_out) + len(fold.left_out) > 0


@given(labels_of_images, seeds)
def test_an_image_is_held_out_once_and_left_out_once_with_all_its_class(
    labels: np.ndarray, seed: int
) -> None:
    folds = folds_of_classes(labels, generator=stream(seed, "folds"))
    if len(np.unique(labels)) == 1:
        assert folds == []
        return
    assert_divided(folds, len(labels))
    assert (times(folds, "held_out", len(labels)) == 1).all()
    assert (times(folds, "left_out", len(labels)) == 1).all()
    for fold in folds:
        left_out = set(labels[fold.left_out])
        assert not left_out & set(labels[fold.held_out])
        assert not left_out & set(labels[fold.fitted])


@given(labels_of_images, seeds)
def test_an_image_is_held_out_once_if_others_of_its_class_are_there(
    labels: np.ndarray, seed: int
) -> None:
    folds = folds_of_images(labels, generator=stream(seed, "folds"))
    assert_divided(folds, len(labels))
    expected = np.bincount(labels)[labels] > 1
    assert np.array_equal(times(folds, "held_out", len(labels)), expected)
    for fold in folds:
        assert len(fold.left_out) == 0
        assert set(labels[fold.held_out]) <= set(labels[fold.fitted])


@pytest.mark.parametrize("folds_of", [folds_of_classes, folds_of_images])
def test_folds_follow_from_the_seed(folds_of: Callable[..., list[Fold]]) -> None:
    labels = np.arange(40) % 4
    one, same, other = (
        np.concatenate([fold.held_out for fold in folds_of(labels, generator=stream(seed, "f"))])
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("classes", "expected"), [(2, 5), (5, 5), (7, 7), (10, 10), (33, 10)])
def test_there_are_as_many_folds_as_classes_within_bounds(classes: int, expected: int) -> None:
    folds = folds_of_classes(np.arange(20 * classes) % classes, generator=stream(0, "folds"))
    assert len(folds) == expected
    assert LEAST_FOLDS <= len(folds) <= MOST_FOLDS
    assert sum(len(fold.left_out) > 0 for fold in folds) == min(classes, 10)


@pytest.mark.parametrize("classes", [2, 3, 8])
def test_most_images_of_the_other_classes_are_left_to_fit_on(classes: int) -> None:
    labels = np.arange(20 * classes) % classes
    for fold in folds_of_classes(labels, generator=stream(0, "folds")):
        others = len(labels) - len(fold.left_out)
        assert len(fold.fitted) >= 0.7 * others
        assert len(set(labels[fold.fitted])) == classes - (len(fold.left_out) > 0)


@pytest.mark.parametrize("images", [10, 12, 19])
def test_a_fifth_of_each_class_is_held_out_at_a_time(images: int) -> None:
    labels = np.arange(2 * images) % 2
    for fold in folds_of_images(labels, generator=stream(0, "folds")):
        counts = np.bincount(labels[fold.held_out])
        assert counts.min() >= images // IMAGE_FOLDS
        assert counts.max() <= -(-images // IMAGE_FOLDS)


def test_500_classes_of_two_images_leave_one_of_most_to_fit_on() -> None:
    labels = np.arange(1000) % 500
    folds = folds_of_classes(labels, generator=stream(0, "folds"))
    assert len(folds) == 10
    for fold in folds:
        assert len(set(labels[fold.left_out])) == 50
        assert 60 < len(fold.held_out) < 140  # 100 at random
        assert len(set(labels[fold.fitted])) > 430


def test_single_images_are_left_out_but_never_held_out_of_folds_of_images() -> None:
    labels = np.arange(6)
    assert folds_of_images(labels, generator=stream(0, "folds")) == []
    assert len(folds_of_classes(labels, generator=stream(0, "folds"))) == 6
