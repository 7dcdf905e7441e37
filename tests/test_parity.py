"""benchmarks/parity.py: detectors that share an encoder are compared with their graphs."""

import warnings
from dataclasses import replace

import pytest
import torch

from oddone.detector import Detector
from oddone.detector.view_embedder import ViewEmbedder
from oddone.errors import DataWarning
from oddone.scoring import score_images
from oddone.verdicts import Verdicts
from parity_table import parity_table
from runs import tiny_source
from small_detector import fitted

pytest.importorskip("onnxruntime", reason="needs oddone[onnx]")
pytest.importorskip("transformers", reason="needs oddone[transformers]")

import parity


@pytest.fixture(scope="module")
def images() -> parity.Images:
    sources = [tiny_source(images=30, seed=seed) for seed in range(3)]
    return parity.Images(*sources)


@pytest.fixture(scope="module")
def detectors(images: parity.Images) -> list[Detector]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that there are few images
        return parity.detectors_of(parity.network("poolnet", images.fitted), images)


def test_every_fusion_and_space_is_measured_with_and_without_a_probe(
    detectors: list[Detector],
) -> None:
    measured = [parity.settings_of(detector) for detector in detectors]
    kinds = {
        (each["space"], each["probe"], each["fusion"])
        for each in measured
        if each["rules"] == ["distance"]
    }
    assert len(kinds) == 2 * 2 * 4
    assert [each["rules"] for each in measured].count(list(parity.RULES)) == 2


def test_the_shared_graph_says_what_each_detector_says(
    detectors: list[Detector], images: parity.Images
) -> None:
    with torch.no_grad():
        graph = parity.SharedGraph(detectors)
        found = parity.to_verdicts(
            graph(torch.from_numpy(pixels)) for pixels in parity.batches(images.tested)
        )
    for detector, after in zip(detectors, found, strict=True):
        change = parity.change_of(detector, score_images(detector, images.tested), after)
        assert (change["images"], change["labels"], change["verdicts"]) == (30, 0, 0)
        assert change["largest_apart"] < 1e-4 * change["deviation"]


def test_detectors_that_share_an_embedder_score_as_by_themselves(
    detectors: list[Detector], images: parity.Images
) -> None:
    for detector in detectors[:3]:
        shared = detector.embedder
        alone = replace(detector, embedder=ViewEmbedder(shared.trained, shared.views))
        torch.testing.assert_close(
            score_images(detector, images.tested).scores, score_images(alone, images.tested).scores
        )


def test_labels_and_verdicts_that_are_others_are_told_with_their_margins() -> None:
    detector = fitted()
    threshold = detector.threshold
    assert threshold is not None
    before = Verdicts(
        torch.tensor([threshold + 0.5, threshold - 1.0]),
        torch.tensor([0, 1]),
        torch.tensor([True, False]),
        None,
        torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]),
    )
    after = Verdicts(before.scores - 0.75, torch.tensor([0, 2]), torch.tensor([False, False]))
    change = parity.change_of(detector, before, after)
    assert (change["labels"], change["verdicts"]) == (1, 1)
    assert change["margins_of_other_verdicts"] == pytest.approx([0.5], rel=1e-5)
    assert change["margins_of_other_labels"] == pytest.approx([0.3])
    assert change["largest_apart"] == pytest.approx(0.75)


def test_the_table_shows_the_newest_figures_of_each_encoder() -> None:
    def row(encoder: str, rules: int, **changes: object) -> dict[str, object]:
        return {
            "encoder": encoder,
            "size": 32,
            "file": "onnx",
            "rules": ["distance"] * rules,
            "images": 1000,
            "labels": 0,
            "verdicts": 0,
            "largest_score": 2e-6,
            "largest_apart": 1e-6,
            "deviation": 2.0,
            "margins_of_other_labels": [],
            "margins_of_other_verdicts": [],
            **changes,
        }

    machine = {"processor": "Abacus"}
    old = {"machine": machine, "file": "old.json", "rows": [row("a", 1), row("a", 3)]}
    of_b = [row("b", 1, verdicts=1, margins_of_other_verdicts=[1e-7]), row("b", 3)]
    exact = {"torch": 7e-5, "file": 1.1e-4}
    of_a = [row("a", 1, largest_score=1.5e-4, against_float64=exact), row("a", 3)]
    new = {"machine": machine, "file": "new.json", "rows": [*of_a, *of_b]}
    lines = parity_table([old, new], lambda record: record["file"]).splitlines()
    assert lines[2:4] == [
        "| a, 32 pixels | onnx | 2 | 1.5e-04 | 5.0e-07 deviations | 0 | 0 |",
        "| b, 32 pixels | onnx | 2 | 2.0e-06 | 5.0e-07 deviations | 0 | 1 |",
    ]
    assert lines[-1].startswith("Of 4,000 verdicts, 0 labels and 1 decisions are others. Where a")
    assert "its worst score is off by up to 7.0e-05 in torch" in lines[-1]
    assert "by up to 1.1e-04 in the file" in lines[-1]
    assert lines[-1].endswith("On one thread of an Abacus, seed 0; record: new.json.")


def test_a_score_that_is_off_is_compared_with_the_network_in_float64(
    detectors: list[Detector], images: parity.Images
) -> None:
    detector = next(each for each in detectors if len(each.rules) == 1)
    before = score_images(detector, images.tested)
    scores = before.scores.clone()
    scores[3] *= 1.01
    found = parity.against_float64(detector, before, replace(before, scores=scores), images.tested)
    assert found["torch"] < 1e-4
    assert found["file"] == pytest.approx(0.01, rel=0.05)
