import numpy as np
import pytest
from figures_looked_at import check_layout, words_of

from oddone.report.confusion import confusion_shares, draw_confusion


def test_each_row_of_the_matrix_is_shares_of_a_true_class() -> None:
    labels, predicted = np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 1, 0])
    shares = confusion_shares(labels, predicted, classes=3)
    np.testing.assert_array_equal(shares, [[0.75, 0.25, 0], [np.nan] * 3, [1, 0, 0]])


def test_few_classes_are_named_and_their_percents_written() -> None:
    shares = np.array([[0.9, 0.1, 0.0], [0.004, 0.996, 0.0], [np.nan] * 3])
    figure = draw_confusion(shares, ["cat", "dog", "a class with a long name"])
    (axes,) = figure.axes
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "90", (1, 0): "10", (1, 1): "100"}
    assert {"cat", "dog", "a clas…g name"} < set(words_of(figure))
    assert axes.get_xlabel() == "name given, in percent of the true class"
    assert axes.get_ylabel() == "true class"
    check_layout(figure, over_pictures=True)


@pytest.mark.parametrize(("classes", "named", "numbers"), [(12, 12, 144), (13, 13, 0), (41, 0, 0)])
def test_of_many_classes_only_what_can_be_read_is_written(
    classes: int, named: int, numbers: int
) -> None:
    shares = np.full((classes, classes), 0.08)
    figure = draw_confusion(shares, [f"class {label}" for label in range(classes)])
    (axes,) = figure.axes
    assert (len(axes.get_xticks()), len(axes.texts)) == (named, numbers)
    check_layout(figure, over_pictures=True)
