"""Verdicts, scores and names as people read them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from oddone.detector import Calibration, Detector
from oddone.errors import SettingsError
from oddone.verdicts import Verdict
from oddone.wording import (
    advise_on_estimate,
    describe_auroc,
    describe_estimate,
    describe_neighbour,
    describe_verdict,
    distinct_names,
    format_score,
    join_words,
    legible,
)
from runs import tiny_source
from small_detector import fitted


def verdict_at(detector: Detector, score: float) -> Verdict:
    """Return the verdict on an image, as if its score were that."""
    assert detector.calibration is not None
    p_value = detector.calibration.p_values(torch.tensor([score])).item()
    anomalous = score > detector.calibration.threshold
    verdict = detector(tiny_source().images[:1])[0]
    return verdict._replace(score=score, anomalous=anomalous, p_value=p_value)


def test_where_there_is_one_class_an_odd_image_is_not_it() -> None:
    detector = fitted(classes=1)
    assert describe_verdict(detector, verdict_at(detector, score=99.0)).headline == "no class 0"


@pytest.mark.parametrize(
    ("odder", "share"),
    [
        (0, "none of 999 normal images"),
        (1, "1 in 500 normal images"),
        (4, "1 in 200 normal images"),
        (98, "1 in 10 normal images"),
        (149, "15% of normal images"),
        (999, "100% of normal images"),
    ],
)
def test_how_odd_is_a_share_of_normal_images(odder: int, share: str) -> None:
    scores = torch.arange(999.0, dtype=torch.float64)
    detector = replace(fitted(), calibration=Calibration(scores, 0.1))
    words = describe_verdict(detector, verdict_at(detector, score=998.5 - odder))
    assert words.rarity == f"This odd or odder: {share}"


def test_where_classes_have_their_own_thresholds_the_words_are_about_the_class() -> None:
    labels = torch.arange(20) % 2
    scores = torch.arange(20.0) + 100 * labels
    calibration = Calibration.of(scores, 0.4, labels)
    detector = replace(fitted(), calibration=calibration)
    verdict = Verdict(score=119.5, label=1, anomalous=True, p_value=1 / 11)
    words = describe_verdict(detector, verdict)
    assert words.rarity == "This odd or odder: none of 10 normal images"
    assert "images like class 1 above 113.0 are called odd" in words.reason
    shared = describe_verdict(detector, verdict._replace(label=2, p_value=1 / 21))
    assert shared.rarity == "This odd or odder: none of 20 normal images"
    assert f"and images above {calibration.threshold:.1f} are called odd" in shared.reason


@pytest.mark.parametrize(
    ("similarity", "words"),
    [
        (0.9996, "distance 0.00040"),
        (0.99974, "distance 0.00026"),
        (0.999_906, "distance 0.00009"),
        (0.9964, "distance 0.0036"),
        (0.632, "distance 0.37"),
        (-0.3, "distance 1.3"),
        (-1.0, "distance 2.0"),
        (1.0, "distance 0.00000"),
        (0.999_999, "distance 0.00000"),
        (0.9, "distance 0.10"),
    ],
)
def test_a_neighbours_distance_has_two_digits_that_differ(similarity: float, words: str) -> None:
    assert describe_neighbour(similarity) == words


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (9.876, "9.88"), (118.24, "118.2"), (1204.4, "1,204")]
)
def test_numbers_are_as_exact_as_needed(value: float, text: str) -> None:
    assert format_score(value) == text


def test_a_legible_name_is_one_line_of_what_can_be_shown() -> None:
    assert legible(" a\tb\r\n\x00c\udce9  d ") == "a b c d"


@pytest.mark.parametrize(
    ("auroc", "words"),
    [
        (1.0, "nearly always told"),
        (0.99, "nearly always told"),
        (0.95, "told very well"),
        (0.949, "told well"),
        (0.85, "told fairly"),
        (0.6, "told poorly"),
        (0.5, "not told"),
        (0.1, "not told"),
    ],
)
def test_how_well_sets_are_told_apart_is_said_in_words(auroc: float, words: str) -> None:
    assert describe_auroc(auroc) == words


def test_an_estimate_tells_its_worst_class_and_what_it_cannot_know() -> None:
    classes = {"mug": 0.99, "lap\ntop": 0.94, "pen": 1.0}
    assert describe_estimate({"auroc": 0.979, "classes": classes}) == (
        "Each of your 3 classes, left out in turn, is told apart from the others with AUROC 97.9% "
        "(worst: lap top 94.0%); in a single case the truth is often 5 points off. It "
        "speaks of things that differ from your classes as these differ from each other: of what "
        "is closer to a class, fewer are told apart."
    )
    alone = describe_estimate({"auroc": 0.9, "classes": {"mug": 0.9}})
    assert alone.startswith(
        "Your class mug, left out, is told apart with AUROC 90.0%; in a single case the truth is "
        "often 5 points off. It speaks of things that differ"
    )


def test_advice_counts_the_images_fitted_on_and_not_those_of_the_estimate() -> None:
    estimate = {"auroc": 0.7, "accuracy": 0.9, "images": 90}
    few = replace(fitted(), provenance={"data": {"images": 120}})
    assert "with 40 images a class, more images would help most" in advise_on_estimate(
        few, estimate
    )
    many = replace(few, provenance={"data": {"images": 900}})
    assert "look alike to this encoder" in advise_on_estimate(many, estimate)


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("efficientnet-lite0", 224, "one, such as --encoder efficientnet-lite2 --size 224, or"),
        ("efficientnet-lite2", 128, "one, such as --encoder efficientnet-lite2 --size 224, or"),
        ("efficientnet-lite2", 224, "one, such as --encoder transformers:facebook/dinov2-base, or"),
        ("transformers:facebook/dinov2-base", 224, "so try a larger one, or train"),
    ],
)
def test_nobody_is_advised_to_take_the_encoder_that_is_there(
    name: str, size: int, words: str
) -> None:
    detector = replace(fitted(), provenance={"data": {"images": 900}})
    trained = detector.embedder.trained
    trained = replace(trained, image_size=size, model=replace(trained.model, encoder_name=name))
    larger = replace(detector, embedder=replace(detector.embedder, trained=trained))
    estimate = {"auroc": 0.7, "accuracy": 0.9, "images": 900}
    assert words in advise_on_estimate(larger, estimate)


def test_paths_with_the_same_name_are_called_by_themselves() -> None:
    paths = [Path("a/same"), Path("b/same"), Path("other")]
    assert distinct_names(["same", "same", "other"], paths) == ["a/same", "b/same", "other"]
    with pytest.raises(SettingsError, match="other, other: name each only once"):
        distinct_names(["other", "other"], paths[2:] * 2)


@pytest.mark.parametrize(
    ("words", "joined"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_joined_as_in_a_sentence(words: list[str], joined: str) -> None:
    assert join_words(words) == joined
