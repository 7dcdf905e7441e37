"""The figures of `make torture`: trials of one name are added up, whoever made them."""

import pytest

import torture


def test_figures_of_one_name_are_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    sums = torture.summed(
        [
            {"name": "kill: train", "tried": 200, "failed": 0},
            {"name": "disk, EIO: fit", "tried": 30, "failed": 2},
            {"name": "kill: train", "tried": 54, "failed": 1},
        ]
    )
    assert sums == {
        "disk, EIO: fit": {"tried": 30, "failed": 2},
        "kill: train": {"tried": 254, "failed": 1},
    }
    torture.print_sums(sums)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "284", "3"]
