"""What a report says of how a detector was made."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from oddone.detector import Detector
from oddone.evaluation import evaluate_scores
from oddone.report.facts import detector_facts, look_up
from small_detector import fitted

EVALUATION = evaluate_scores(torch.zeros(1600), {"a": torch.ones(3), "b": torch.ones(1000)})
PROVENANCE = {
    "date": "2026-11-16T18:12:19+00:00",
    "data": {"images": 4800},
    "settings": {"minutes": 2.5},
}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return fitted()


def facts(
    detector: Detector, provenance: dict[str, Any], history: list[dict[str, Any]]
) -> list[str]:
    return detector_facts(replace(detector, provenance=provenance), history, EVALUATION)


def test_a_run_says_what_how_long_and_when_it_was_trained(detector: Detector) -> None:
    history = [{"step": 1, "seconds": 0.5}, {"step": 1193, "seconds": 90.0}]
    assert facts(detector, PROVENANCE, history) == [
        "Trained on 4,800 images of 3 classes",
        "images of 16 x 16 pixels",
        "1,193 steps in 1.5 minutes",
        "16 November 2026",
        "tested on 1,600 images of the classes and 1,003 OOD",
    ]


def test_a_file_without_a_history_says_how_long_it_was_to_be_trained(detector: Detector) -> None:
    assert "2.5 minutes of training" in facts(detector, PROVENANCE, [])


@pytest.mark.parametrize(
    ("seconds", "words"), [(1.2, "1 second"), (23.7, "24 seconds"), (150.0, "2.5 minutes")]
)
def test_what_was_only_fitted_is_not_called_trained(
    detector: Detector, seconds: float, words: str
) -> None:
    about = {"data": {"images": 368}, "seconds": seconds}
    assert facts(detector, about, [])[:3] == [
        "Fitted to 368 images of 3 classes", "images of 16 x 16 pixels", f"in {words}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "provenance",
    [
        {},
        {"date": "yesterday", "data": {"images": "many"}, "settings": {"minutes": None}},
        {"date": 7, "data": [4800], "settings": {"minutes": True}},
        {"date": "", "data": {"images": False}, "settings": {"minutes": float("nan")}},
        {"date": None, "data": None, "settings": None},
    ],
)
def test_what_is_not_known_is_left_out(detector: Detector, provenance: dict[str, Any]) -> None:
    assert facts(detector, provenance, [{"step": 1, "loss": 3.0}]) == [
        "Trained on 3 classes",
        "images of 16 x 16 pixels",
        "tested on 1,600 images of the classes and 1,003 OOD",
    ]


def test_one_image_is_no_images(detector: Detector) -> None:
    alone = evaluate_scores(torch.zeros(1), {})
    one = replace(detector, provenance={"data": {"images": 1}})
    assert detector_facts(one, [], alone) == [
        "Trained on 1 image of 3 classes", "images of 16 x 16 pixels", "tested on 1 image",
    ]  # fmt: skip


def test_what_lies_below_something_that_is_no_mapping_is_nothing() -> None:
    assert look_up({"a": {"b": 1}}, "a", "b") == 1
    assert look_up({"a": [1]}, "a", "b", "c") is None
