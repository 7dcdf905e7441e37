import numpy as np
from figures_looked_at import check_layout, keys_of, words_of

from oddone.report.training_curves import LossCurve, draw_losses, draw_training_curves, smooth


def test_the_loss_and_its_terms_stand_above_the_learning_rate() -> None:
    steps = np.arange(1, 101)
    losses = {"loss": 9 - steps / 20, "ccm": 5 - steps / 40, "spa": 4 - steps / 40}
    figure = draw_training_curves(steps, losses, steps / 1000)
    above, below = figure.axes
    assert keys_of(figure) == ["loss", "ccm", "spa"]
    for index, values in enumerate(losses.values()):
        raw, smooth = above.lines[2 * index : 2 * index + 2]
        np.testing.assert_array_equal(raw.get_data(), (steps, values))
        np.testing.assert_allclose(smooth.get_ydata()[1:-1], values[1:-1])
    np.testing.assert_array_equal(below.lines[0].get_data(), (steps, steps / 1000))
    assert above.get_ylabel() == "loss"
    assert (below.get_xlabel(), below.get_ylabel()) == ("step", "learning rate")
    assert above.get_xlim() == below.get_xlim() == (1, 100)
    check_layout(figure)


def test_one_step_can_be_drawn() -> None:
    one = np.array([3.0])
    check_layout(draw_training_curves(np.array([1]), {"loss": one}, one))


def test_networks_of_one_name_share_a_panel() -> None:
    short, long = (LossCurve(np.arange(1, end), 9.0 / np.arange(1, end)) for end in (51, 101))
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
    slow = [np.mean(values[max(0, index - 3) : index + 4]) for index in range(200)]
    np.testing.assert_allclose(smooth(values), slow)


def test_few_steps_are_not_smooth() -> None:
    np.testing.assert_array_equal(smooth(np.array([1.0, 5.0, 2.0])), [1.0, 5.0, 2.0])
