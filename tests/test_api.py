"""From images to a detector in one call, in a kept run directory or in none."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import oddone
from oddone.api import fit_run
from oddone.data import ImageSet
from oddone.errors import DataError, SettingsError
from oddone.training import RunDirectory, StepReport, TrainSettings
from oddone.training.settings_file import to_dict
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings(
    "ignore::oddone.errors.SettingsWarning", "ignore::oddone.errors.DataWarning"
)

SOURCE = tiny_source(images=96)


def settings(**changes: object) -> TrainSettings:
    return tiny_settings(steps=3, held_out=0.2, **changes)


def test_a_detector_is_trained_fitted_and_calibrated_on_what_was_held_out() -> None:
    steps: list[StepReport] = []
    detector = oddone.train(SOURCE, settings(), false_alarms=0.2, watch=steps.append)
    assert [report.step for report in steps] == [1, 2, 3]
    assert detector.calibration is not None
    assert (len(detector.calibration.scores), detector.calibration.false_alarms) == (18, 0.2)
    assert detector.provenance["settings"] == to_dict(settings())
    assert detector.provenance["versions"]["oddone"] == oddone.__version__


def test_images_may_be_given_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tiny.npz"
    np.savez(path, images=SOURCE.images, labels=SOURCE.labels, classes=SOURCE.classes)
    named, given = oddone.train(str(path), settings()), oddone.train(SOURCE, settings())
    assert torch.equal(named(SOURCE.images).scores, given(SOURCE.images).scores)


def test_a_kept_run_holds_the_detector_and_is_not_trained_again(tmp_path: Path) -> None:
    steps: list[StepReport] = []
    first = oddone.train(SOURCE, settings(), out=tmp_path / "run", watch=steps.append)
    again = oddone.train(SOURCE, settings(), out=tmp_path / "run", watch=steps.append)
    assert len(steps) == 3
    saved = oddone.Detector.load(tmp_path / "run" / "detector.oddone")
    for detector in (again, saved):
        assert torch.equal(detector(SOURCE.images).scores, first(SOURCE.images).scores)


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    oddone.train(SOURCE, settings(), out=tmp_path)
    with pytest.raises(SettingsError, match="holds a run with other settings"):
        oddone.train(SOURCE, replace(settings(), seed=4), out=tmp_path)
    with pytest.raises(DataError, match="holds a run on other images"):
        oddone.train(tiny_source(images=96, seed=1), settings(), out=tmp_path)


def test_a_start_that_fails_leaves_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too few"):
        oddone.train(tiny_source(images=1), settings(), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def with_few(images: int) -> ImageSet:
    """Return the images, but so many of class 2."""
    few = SOURCE.labels == 2
    few[np.flatnonzero(few)[:images]] = False
    return replace(SOURCE, labels=np.where(few, 1, SOURCE.labels))


def never_trained(_: StepReport) -> None:
    raise AssertionError("training began, and no detector can be fitted afterwards")


def test_a_class_with_too_few_images_to_fit_is_refused_before_training() -> None:
    for images in (0, 1):
        with pytest.raises(DataError, match=f"of class 'class 2' .* is {images} .* at least 2"):
            oddone.train(with_few(images), settings(), watch=never_trained)
    spared = replace(settings(), held_out=0.5)
    with pytest.raises(DataError, match=r"train on is 1 \(and 1 held out\)"):
        oddone.train(with_few(2), spared, watch=never_trained)
    unlabelled = replace(SOURCE, labels=SOURCE.labels * 0 - 1, classes=())
    with pytest.raises(DataError, match="96 of 96 images have no label"):
        oddone.train(unlabelled, settings(objective="simclr"), watch=never_trained)


def test_as_many_images_of_a_class_as_its_gaussian_needs_are_enough() -> None:
    learned = settings(objective="cross-entropy", rotations="none")
    with pytest.raises(DataError, match="is 0 .* at least 1"):
        oddone.train(with_few(0), learned, watch=never_trained)
    for images, chosen in ((1, learned), (2, settings())):
        assert len(oddone.train(with_few(images), chosen).classes) == 3


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
def test_what_a_caller_has_switched_off_does_not_matter(
    switched_off: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.selection.head.STEPS", 3)

    def learned() -> list[oddone.Detector]:
        torch.manual_seed(0)
        encoder = own_encoder()
        return [
            oddone.train(SOURCE, settings()),
            oddone.train(SOURCE, settings(), encoder=encoder),
            oddone.fit(SOURCE, encoder=encoder, learn_head=True),
        ]

    with switched_off():
        inside = learned()
    for one, other in zip(inside, learned(), strict=True):
        assert torch.equal(one(SOURCE.images).scores, other(SOURCE.images).scores)
        assert not any(each.is_inference() for each in one.embedder.trained.network.parameters())


def own_encoder(channels: int = 5) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, channels, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def interrupted(path: Path, encoder: nn.Module | None) -> RunDirectory:
    """Return a run that has a checkpoint of its first step and was stopped in the second."""

    def interrupt(report: StepReport) -> None:
        if report.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        oddone.train(SOURCE, settings(), out=path, encoder=encoder, watch=interrupt)
    return RunDirectory.open(path)


def test_a_run_on_an_encoder_of_ones_own_goes_on_with_such_an_encoder_alone(
    tmp_path: Path,
) -> None:
    run = interrupted(tmp_path, own_encoder())
    assert run.provenance["own_encoder"] == "Sequential"
    before = content(tmp_path)
    with pytest.raises(
        SettingsError, match="encoder of your own, Sequential, .*encoder="
    ) as caught:
        oddone.train(SOURCE, settings(), out=tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"of another network .*; pass the encoder"):
        oddone.train(SOURCE, settings(), out=tmp_path, encoder=own_encoder(channels=6))
    assert content(tmp_path) == before
    assert oddone.train(SOURCE, out=tmp_path, encoder=own_encoder()).calibration is not None


def test_a_run_on_a_named_encoder_does_not_go_on_with_another(tmp_path: Path) -> None:
    assert "own_encoder" not in interrupted(tmp_path, None).provenance
    before = content(tmp_path)
    with pytest.raises(DataError, match="of another network"):
        oddone.train(SOURCE, settings(), out=tmp_path, encoder=own_encoder())
    assert content(tmp_path) == before


def test_where_nothing_is_held_out_there_is_no_threshold() -> None:
    assert oddone.train(SOURCE, tiny_settings(steps=1)).threshold is None


def test_rules_count_alike_where_nothing_is_held_out_too() -> None:
    learned = tiny_settings(steps=1, objective="cross-entropy", rotations="none")
    detector = oddone.train(SOURCE, learned)
    assert detector.threshold is None
    for rule in detector.rules:
        alone = replace(detector, rules=(rule,))(SOURCE.images).scores.double()
        assert alone.mean().item() == pytest.approx(0, abs=1e-3)
        assert alone.std(correction=0).item() == pytest.approx(1, rel=1e-3)


def test_a_run_that_is_not_finished_has_no_detector(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", settings(), {})
    with pytest.raises(SettingsError, match="is not finished; go on with oddone train --resume"):
        fit_run(run, SOURCE)
