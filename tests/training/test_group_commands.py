"""Commands in several processes: they speak with one voice, and disagree in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from group_commands import SIZE, fast_encoder
from groups import free_ports, run_group

import oddone
from oddone.data import load
from oddone.detector import Detector
from oddone.scoring import score_images

MESSAGES = {
    "fit on other images": "the fingerprint of the images is ",
    "train on other images": "the fingerprint of the images is ",
    "train by another torch": "torch is 1.0 in process 2 on ",
    "train on too few images": "3 processes and 2 images a step; start at most 2",
}


@pytest.fixture
def folder(groups: Path) -> Path:
    """Return the folder in which three processes have run all commands."""
    return groups / str(SIZE)


def found(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return what each process says of a command."""
    return [json.loads((folder / f"{name} {rank}.json").read_text()) for rank in range(SIZE)]


@pytest.mark.parametrize("name", MESSAGES)
def test_processes_that_disagree_say_so_in_a_line_and_leave_nothing(
    folder: Path, name: str
) -> None:
    members = found(folder, name)
    told = "".join(member["complained"] for member in members)
    assert [member["code"] for member in members] == [2] * SIZE
    assert MESSAGES[name] in told
    assert told.count("\n") == 1
    assert not (folder / "run").exists()
    assert not (folder / "none.oddone").exists()


@pytest.mark.filterwarnings("ignore:with 47 held-out images")
def test_each_process_embeds_its_share_and_the_first_writes_the_detector(folder: Path) -> None:
    members = found(folder, "fit")
    assert [member["code"] for member in members] == [0] * SIZE
    assert [member["embedded"] for member in members] == [15, 16, 16]
    assert "47 images in 3 classes" in members[0]["printed"]
    assert [member["printed"] for member in members[1:]] == [""] * (SIZE - 1)
    together = Detector.load(folder / "all.oddone", encoder=fast_encoder())
    assert together.provenance["processes"] == SIZE
    images = load(f"arrays:{folder}/0.npz", size=16)
    alone = oddone.fit(images, encoder=fast_encoder(), image_size=16)
    assert together.rules == alone.rules
    scores = [score_images(each, images).scores for each in (together, alone)]
    torch.testing.assert_close(*scores)


def test_the_first_to_fail_stays_until_the_others_know_that_they_are_not(tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    run_group(SIZE, "group_failures.py", str(tmp_path), MASTER_PORT=port)
    told = [(tmp_path / str(rank)).read_text() for rank in range(SIZE)]
    assert told == ["too few images", "", ""]
