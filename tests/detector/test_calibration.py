import math

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
