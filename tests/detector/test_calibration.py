import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from oddone.detector import Calibration
from oddone.errors import DataError, DataWarning, SettingsError


def calibrated(scores: torch.Tensor, false_alarms: float) -> Calibration:
    """Return a calibration, whatever it warns of."""
    return Calibration(scores.double().sort().values, false_alarms)


@given(st.integers(1, 60), st.integers(1, 99), st.integers(0, 2**31))
def test_an_image_is_above_the_threshold_just_where_its_p_value_allows(
    images: int, percent: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.randint(20, (images,), generator=generator).double()  # with ties
    calibration = calibrated(held_out, percent / 100)
    scores = torch.arange(-1, 21, 0.5).double()
    flagged = scores > calibration.threshold
    allowed = max(percent / 100, 1 / (images + 1))  # no p-value is smaller than that
    assert torch.equal(flagged, calibration.p_values(scores) <= allowed + 1e-12)


def test_a_p_value_counts_the_held_out_images_that_are_as_odd() -> None:
    calibration = calibrated(torch.tensor([3.0, 1.0, 2.0, 2.0]), 0.2)
    p_values = calibration.p_values(torch.tensor([0.0, 2.0, 2.5, 9.0]))
    assert p_values.tolist() == [5 / 5, 4 / 5, 2 / 5, 1 / 5]  # the image itself is one of them


@pytest.mark.parametrize("labels", [None, torch.zeros(40, dtype=torch.long)])
def test_a_score_that_is_no_number_is_never_normal(labels: torch.Tensor | None) -> None:
    calibration = Calibration(torch.arange(40.0).double(), 0.1, labels)
    scores = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf])
    classes = torch.zeros(4, dtype=torch.long)
    assert calibration.anomalous(scores, classes).tolist() == [False, True, True, True]
    assert calibration.p_values(scores, classes).tolist() == [1, 1 / 41, 1 / 41, 1 / 41]


def test_false_alarms_are_as_rare_as_promised_and_within_the_interval() -> None:
    """Calibrate many times on 199 numbers and see how often a new number is flagged."""
    generator = torch.Generator().manual_seed(0)
    shares, inside = [], 0
    for _ in range(400):
        calibration = calibrated(torch.rand(199, generator=generator), 0.1)
        share = 1 - calibration.threshold  # of all uniform numbers
        shares.append(share)
        inside += calibration.interval.low <= share <= calibration.interval.high
    assert np.mean(shares) == pytest.approx(0.1, abs=0.004)
    assert 0.92 <= inside / 400 <= 0.98


def test_the_threshold_is_kept_by_any_increasing_change_of_the_scores() -> None:
    scores = torch.rand(50, generator=torch.Generator().manual_seed(1)).double()
    plain, changed = calibrated(scores, 0.1), calibrated(scores.exp(), 0.1)
    assert math.exp(plain.threshold) == pytest.approx(changed.threshold)


def test_more_images_narrow_the_interval() -> None:
    few, many = (calibrated(torch.rand(images), 0.1).interval for images in (99, 9999))
    assert many.high - many.low < (few.high - few.low) / 5


def test_too_few_images_are_said_to_be_too_few() -> None:
    with pytest.warns(DataWarning, match="9 held-out images .* 5.0%.* calibrate with 19 at least"):
        calibration = Calibration.of(torch.arange(9.0), 0.05)
    assert calibration.threshold == 8.0


def test_a_wide_interval_is_told() -> None:
    with pytest.warns(DataWarning, match="with 60 held-out images, .* may be 1.0% to 11.5%"):
        Calibration.of(torch.arange(60.0), 0.05)


def test_many_images_need_no_warning() -> None:
    assert Calibration.of(torch.arange(199.0), 0.05).threshold == 189


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="false_alarms=.*choose a share"):
        Calibration.of(torch.arange(9.0), share)


def test_no_image_and_no_number_are_refused() -> None:
    with pytest.raises(DataError, match="0 were given"):
        Calibration.of(torch.empty(0), 0.05)
    with pytest.raises(DataError, match="1 of 2 calibration scores are not finite"):
        Calibration.of(torch.tensor([1.0, math.nan]), 0.05)


# Thresholds per class


def calibrated_per_class(
    scores: torch.Tensor, false_alarms: float, labels: torch.Tensor
) -> Calibration:
    """Return a calibration per class, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Calibration.of(scores, false_alarms, labels)


def random_images(images: int, classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores with ties and labels, the scores of each class higher than the last's."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (images,), generator=generator)
    return torch.randint(12, (images,), generator=generator).double() + 3 * labels, labels


@given(st.integers(1, 120), st.integers(1, 4), st.integers(1, 99), st.integers(0, 2**31))
def test_each_class_is_decided_about_by_its_own_images_or_by_all(
    images: int, classes: int, percent: int, seed: int
) -> None:
    """Compare with one calibration for each class, made of its images alone."""
    held_out, labels = random_images(images, classes, seed)
    share = percent / 100
    calibration = calibrated_per_class(held_out, share, labels)
    scores = torch.arange(-1, 25, 0.5).double()
    for label in range(classes + 1):  # of the last there is no image
        own = held_out[labels == label]
        enough = len(own) >= math.ceil(1 / share) - 1
        alone = calibrated(own if enough else held_out, share)
        predicted = torch.full((len(scores),), label)
        assert (label in calibration.own_classes) == enough
        assert calibration.thresholds(predicted).tolist() == [alone.threshold] * len(scores)
        assert torch.equal(calibration.anomalous(scores, predicted), scores > alone.threshold)
        p_values = calibration.p_values(scores, predicted)
        assert torch.equal(p_values, alone.p_values(scores))


@given(st.integers(0, 100), st.integers(1, 4), st.integers(1, 99), st.integers(0, 2**31))
def test_anomalous_are_just_the_images_whose_p_value_is_at_most_the_wanted_share(
    more: int, classes: int, percent: int, seed: int
) -> None:
    images = math.ceil(100 / percent) - 1 + more  # with fewer, no p-value is that small
    held_out, labels = random_images(images, classes, seed)
    scores, predicted = random_images(200, classes + 1, seed + 1)
    for calibration in (
        calibrated(held_out, percent / 100),
        calibrated_per_class(held_out, percent / 100, labels),
    ):
        anomalous = calibration.anomalous(scores, predicted)
        assert torch.equal(anomalous, calibration.p_values(scores, predicted) <= percent / 100)


def test_false_alarms_are_as_rare_as_promised_in_each_class() -> None:
    """Calibrate many times on classes of which one scores twice as high as the other."""
    generator = torch.Generator().manual_seed(0)
    heights = torch.tensor([1.0, 2.0])
    own_shares, common_shares = [], []
    for _ in range(400):
        labels = (torch.rand(400, generator=generator) < 0.3).long()
        scores = heights[labels] * torch.rand(400, generator=generator)
        calibration = calibrated_per_class(scores, 0.1, labels)
        own_shares.append(1 - calibration.thresholds(torch.arange(2)) / heights)
        common_shares.append((1 - calibration.threshold / heights).clamp(min=0))
    own, common = torch.stack(own_shares).mean(dim=0), torch.stack(common_shares).mean(dim=0)
    assert ((own > 0.09) & (own < 0.1 + 0.003)).all()  # rank / (images + 1), rounded down
    assert common[0] < 0.01  # what one threshold does to them
    assert common[1] > 0.3


def test_the_promise_holds_for_the_fewest_images_that_may_have_a_threshold() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(2).repeat_interleave(torch.tensor([19, 18]))
    shares = []
    for _ in range(500):
        calibration = calibrated_per_class(torch.rand(37, generator=generator), 0.05, labels)
        assert calibration.own_classes == [0]
        shares.append(1 - calibration.thresholds(torch.tensor([0])).item())
    assert np.mean(shares) == pytest.approx(0.05, abs=0.006)


def test_the_order_of_held_out_images_does_not_matter() -> None:
    scores, labels = random_images(300, 3, seed=2)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    one = calibrated_per_class(scores, 0.1, labels)
    other = calibrated_per_class(scores[order], 0.1, labels[order])
    assert torch.equal(one.scores, other.scores)
    assert one.labels is not None
    assert other.labels is not None
    assert torch.equal(one.labels, other.labels)  # though many scores are equal
    pairs = {*zip(scores.tolist(), labels.tolist(), strict=True)}
    assert {*zip(one.scores.tolist(), one.labels.tolist(), strict=True)} == pairs


def test_without_labels_new_labels_change_nothing() -> None:
    scores, labels = random_images(99, 3, seed=4)
    calibration = Calibration.of(scores, 0.3)
    assert calibration.labels is None
    assert calibration.own_classes == []
    assert calibration.for_class(1) is calibration
    assert torch.equal(calibration.p_values(scores, labels), calibration.p_values(scores))
    assert torch.equal(calibration.anomalous(scores, labels), scores > calibration.threshold)
    assert calibration.thresholds(labels).unique().tolist() == [calibration.threshold]


def test_the_threshold_of_all_images_is_the_same_with_labels() -> None:
    scores, labels = random_images(300, 3, seed=5)
    plain, per_class = Calibration.of(scores, 0.3), Calibration.of(scores, 0.3, labels)
    assert torch.equal(plain.scores, per_class.scores)
    assert (plain.threshold, plain.interval) == (per_class.threshold, per_class.interval)


def test_one_class_has_the_threshold_of_all_images() -> None:
    scores = torch.rand(199, generator=torch.Generator().manual_seed(6))
    one_class = Calibration.of(scores, 0.1, torch.zeros(199, dtype=torch.long))
    assert one_class.own_classes == [0]
    assert one_class.thresholds(torch.tensor([0, 1])).tolist() == [one_class.threshold] * 2


def test_one_image_decides_for_its_class_where_that_is_enough() -> None:
    calibration = calibrated_per_class(torch.tensor([1.0, 2.0, 3.0]), 0.5, torch.tensor([0, 1, 1]))
    assert calibration.thresholds(torch.arange(3)).tolist() == [1.0, 3.0, 2.0]
    assert calibration.p_values(torch.tensor([1.0, 1.5]), torch.tensor([0, 0])).tolist() == [1, 0.5]


def test_equal_scores_alarm_nobody() -> None:
    labels = torch.arange(40) % 2
    calibration = calibrated_per_class(torch.ones(40), 0.1, labels)
    assert calibration.own_classes == [0, 1]
    assert not calibration.anomalous(torch.ones(40), labels).any()
    assert (calibration.p_values(torch.ones(40), labels) == 1).all()
    assert calibration.anomalous(torch.full((40,), 1.5), labels).all()


def test_no_new_images_have_no_p_values() -> None:
    calibration = calibrated_per_class(torch.rand(40), 0.1, torch.arange(40) % 2)
    nothing, no_labels = torch.empty(0), torch.empty(0, dtype=torch.long)
    assert len(calibration.p_values(nothing, no_labels)) == 0
    assert len(calibration.anomalous(nothing, no_labels)) == 0


def test_classes_with_too_few_images_are_told() -> None:
    labels = torch.arange(3).repeat_interleave(torch.tensor([400, 18, 1]))
    told = "2 of 3 predicted classes have fewer than 19 held-out images.* share that of all images"
    with pytest.warns(DataWarning, match=told) as caught:
        Calibration.of(torch.arange(419.0), 0.05, labels)
    assert len(caught) == 1


def test_a_wide_interval_of_a_class_is_told() -> None:
    labels = torch.arange(2).repeat_interleave(torch.tensor([400, 60]))
    told = "with 60 held-out images of a class, .* may be 1.0% to 11.5%"
    with pytest.warns(DataWarning, match=told) as caught:
        Calibration.of(torch.arange(460.0), 0.05, labels)
    assert len(caught) == 1


def test_many_images_of_each_class_need_no_warning() -> None:
    calibration = Calibration.of(torch.arange(398.0), 0.05, torch.arange(398) // 199)
    assert calibration.thresholds(torch.arange(2)).tolist() == [189, 388]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "2 labels, 0 of them below 0, do not go with 3 calibration scores; give the"),
        ([0, -1, 1], "3 labels, 1 of them below 0, do not go with 3 calibration scores"),
    ],
)
@pytest.mark.usefixtures("as_shipped")
def test_labels_that_do_not_go_with_the_scores_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Calibration.of(torch.arange(3.0), 0.5, torch.tensor(labels))


def test_thresholds_per_class_cannot_be_used_without_labels() -> None:
    calibration = calibrated_per_class(torch.rand(40), 0.1, torch.arange(40) % 2)
    for decide in (calibration.p_values, calibration.anomalous):
        with pytest.raises(SettingsError, match="threshold per class; give the predicted labels"):
            decide(torch.rand(3))
