"""The harness is not blind: faults that are put into oddone on purpose are found."""

import pytest
from commands import Stage
from test_disk import check_faulty, check_flipped, unflushed
from test_kill import check_killed
from trials import Trials


@pytest.mark.parametrize(
    ("planted", "fault", "told"),
    [
        ("write_in_place", "kill", "detector.oddone is cut short"),
        ("write_in_place", "ENOSPC", "detector.oddone is cut short"),
        ("hide_errors_of_the_disk", "EIO", "run/detector.oddone: "),
        ("raise_through", "EIO", "RuntimeError"),
    ],
)
def test_what_is_planted_is_found(stage: Stage, planted: str, fault: str, told: str) -> None:
    trials = Trials()
    operations = stage.undisturbed("calibrate")[0].operations
    for number in range(1, len(operations) + 1):
        with trials.trial("planted"):
            if fault == "kill":
                check_killed(stage, "calibrate", [planted], fault=fault, number=number)
            else:
                check_faulty(stage, "calibrate", fault, number, [planted])
    assert any(told in failure for failure in trials.failures)


@pytest.mark.parametrize("name", ["calibrate", "extend"])
def test_a_missing_check_of_the_digest_is_found(stage: Stage, name: str) -> None:
    # Files end with weights in float32: of one of them, a high bit of the mantissa.
    with pytest.raises(AssertionError, match="nobody has noticed"):
        check_flipped(stage, name, byte=-402, bit=5, changes=["check_no_digest"])


def test_a_file_that_is_not_flushed_is_found(stage: Stage) -> None:
    stage.set_up(["run"])
    finished = stage.run("calibrate", ["write_without_flush"])
    assert finished.code == 0
    assert unflushed(finished.operations) != []
