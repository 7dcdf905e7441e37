import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of

from oddone.report.confusion import confusion_matrix, draw_confusion
from oddone.report.curves import Losses, draw_curves, draw_losses, smoothed

# --- Training curves --------------------------------------------------------------------------


def test_the_loss_and_its_terms_stand_above_the_learning_rate() -> None:
    steps = np.arange(1, 101)
    losses = {"loss": 9 - steps / 20, "ccm": 5 - steps / 40, "spa": 4 - steps / 40}
    figure = draw_curves(steps, losses, steps / 1000)
    above, below = figure.axes
    assert keys_of(figure) == ["loss", "ccm", "spa"]
    for place, values in enumerate(losses.values()):
        raw, smooth = above.lines[2 * place : 2 * place + 2]
        np.testing.assert_array_equal(raw.get_data(), (steps, values))
        np.testing.assert_allclose(smooth.get_ydata()[1:-1], values[1:-1])
    np.testing.assert_array_equal(below.lines[0].get_data(), (steps, steps / 1000))
    assert above.get_ylabel() == "loss"
    assert (below.get_xlabel(), below.get_ylabel()) == ("step", "learning rate")
    assert above.get_xlim() == below.get_xlim() == (1, 100)
    check_layout(figure)


def test_one_step_can_be_drawn() -> None:
    one = np.array([3.0])
    check_layout(draw_curves(np.array([1]), {"loss": one}, one))


def test_networks_of_one_name_share_a_panel() -> None:
    short, long = (Losses(np.arange(1, end), 9.0 / np.arange(1, end)) for end in (51, 101))
    name = "MCL with rotations as augmentation"
    figure = draw_losses({name: [short, long], "SimCLR": [short], "b": [short]})
    shared, alone, _ = figure.axes
    drawn = [line.get_xydata() for line in shared.lines]
    np.testing.assert_array_equal(drawn[0], np.transpose(short))
    np.testing.assert_array_equal(drawn[2], np.transpose(long))
    assert (len(drawn), len(alone.lines)) == (4, 2)
    assert (shared.get_xlim(), alone.get_xlim()) == ((1, 100), (1, 50))
    assert (alone.get_xlabel(), alone.get_ylabel()) == ("step", "loss")
    assert {name, "SimCLR"} < set(words_of(figure))
    check_layout(figure)


def test_smoothing_is_a_mean_over_the_steps_around() -> None:
    values = np.random.default_rng(0).normal(size=200)
    slow = [np.mean(values[max(0, place - 3) : place + 4]) for place in range(200)]
    np.testing.assert_allclose(smoothed(values), slow)


def test_few_steps_are_not_smoothed() -> None:
    np.testing.assert_array_equal(smoothed(np.array([1.0, 5.0, 2.0])), [1.0, 5.0, 2.0])


# --- The confusion matrix ---------------------------------------------------------------------


def test_each_row_of_the_matrix_is_shares_of_a_true_class() -> None:
    labels, predicted = np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 1, 0])
    shares = confusion_matrix(labels, predicted, classes=3)
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
