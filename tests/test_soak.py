"""The soak: a planted leak is found, and what is flat is not taken for one."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import soak

LEAKED: list[object] = []


def samples(
    *, hours: float = 1.0, mebibytes_per_hour: float = 0.0, slowed_to: float = 1.0
) -> Sequence[soak.Sample]:
    """Return samples of a process whose memory goes up and down, with noise, around a line."""
    generator = np.random.default_rng(0)
    seconds = np.arange(0, hours * 3600)
    teeth = 40 * (seconds % 37 / 37) + generator.normal(0, 5, len(seconds))
    resident = 500 + teeth + mebibytes_per_hour * seconds / 3600
    images = np.cumsum(np.linspace(100, 100 * slowed_to, len(seconds)))
    return [
        soak.Sample(at, held, 9 + int(at) % 3, 1 + int(at) % 2, int(done), at / 2)
        for at, held, done in zip(seconds, resident, images, strict=True)
    ]


def faults(of_process: Sequence[soak.Sample]) -> list[str]:
    return list(soak.faults_of(soak.measured(of_process)))


@pytest.mark.parametrize("hours", [1.0, 0.15])
def test_memory_that_goes_up_and_down_is_no_leak(hours: float) -> None:
    assert faults(samples(hours=hours)) == []


def test_memory_that_grows_by_fifty_mebibytes_an_hour_is_a_leak() -> None:
    (fault,) = faults(samples(mebibytes_per_hour=50))
    assert fault.startswith("resident_mebibytes grows by ")


def test_memory_that_shrinks_is_no_leak() -> None:
    assert faults(samples(mebibytes_per_hour=-50)) == []


def test_an_open_file_more_every_ten_minutes_is_a_leak() -> None:
    leaking = [each._replace(descriptors=9 + int(each.seconds) // 600) for each in samples()]
    (fault,) = faults(leaking)
    assert fault.startswith("descriptors grows by ")


def test_a_process_that_slows_down_by_a_half_is_noticed_and_by_a_tenth_is_not() -> None:
    (fault,) = faults(samples(slowed_to=0.5))
    assert "images per second of CPU at first" in fault
    assert faults(samples(slowed_to=0.9)) == []


def test_a_process_that_stands_still_is_noticed() -> None:
    (fault,) = faults([each._replace(images=7) for each in samples()])
    assert fault == "0 images are too few to tell whether it slows down"


def test_a_slope_is_that_of_a_line_with_an_interval_around_it() -> None:
    seconds = np.arange(0, 3600.0)
    exact = soak.slope(seconds, 3 + 2 * seconds / 3600)
    assert exact == pytest.approx((2, 2, 2))
    assert soak.slope(seconds, np.ones(3600)) == (0, 0, 0)
    wavy = soak.slope(seconds, 3 + 2 * seconds / 3600 + np.sin(seconds / 100))
    assert wavy.low < 2 < wavy.high


def leak(_: Path, count: soak.Count) -> None:
    """Keep a file open and half a mebibyte, at most a hundred times a second."""
    LEAKED.append((os.open(__file__, os.O_RDONLY), b"x" * (512 << 10)))
    time.sleep(0.01)
    count(1)


def fail(_: Path, count: soak.Count) -> None:
    """Do a little work, and end."""
    count(1)
    raise SystemExit(3)


@pytest.mark.skipif(sys.platform != "linux", reason="the soak reads /proc, which only Linux has")
def test_a_leak_that_is_planted_in_a_process_is_found(tmp_path: Path) -> None:
    (tmp_path / "arriving").mkdir()
    found, ended = soak.soak(tmp_path, {"leak": leak}, seconds=4)
    growing = {fault.partition(" grows by ")[0] for fault in faults(found["leak"])}
    assert growing >= {"resident_mebibytes", "descriptors"}
    assert ended == []


@pytest.mark.skipif(sys.platform != "linux", reason="the soak reads /proc, which only Linux has")
def test_a_process_that_ends_by_itself_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "arriving").mkdir()
    _, (fault,) = soak.soak(tmp_path, {"fail": fail}, seconds=600)
    assert fault.startswith("fail ended by itself after ")
    assert fault.endswith("with code 3")
