"""ONNX and .pt2 files of detectors: they must say what the detectors say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
import pytest
import torch
from exports import OwnEncoder, calibrated, check_same, new_images, untrained
from torch import Tensor

from oddone.detector import Detector, DetectorSettings
from oddone.detector.rules import Rule, StandardisedRule
from oddone.encoders import frozen_network
from oddone.encoders.by_name import build_encoder
from oddone.errors import SettingsError
from oddone.export.files import onnx_content, pt2_content
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import onnx_package
from oddone.fusion import view_weighted
from oddone.transforms import moved_and_mirrored, one_view
from runs import tiny_settings, tiny_source

pytest.importorskip("onnxscript", reason="needs oddone[onnx]")


class CountsImages(OwnEncoder):
    """One that does another thing for one image alone."""

    def forward(self, images: Tensor) -> Tensor:
        features = super().forward(images)
        return features if len(images) > 1 else features.roll(1, dims=1)


def of_poolnet() -> Detector:
    """Return a detector by all rules, with the classifier of a PoolNet."""
    model = replace(tiny_settings().model, encoder_name="poolnet")
    trained = untrained(
        tiny_source(images=90), objective="cross-entropy", rotations="none", model=model
    )
    settings = DetectorSettings(
        views=moved_and_mirrored,
        space="features",
        tied=True,
        classifier="network",
        fuse=view_weighted,
        rules=tuple(StandardisedRule(rule, 0.5, 2.0) for rule in get_args(Rule)),
    )
    return calibrated(trained, settings, per_class=True)


def of_own_encoder() -> Detector:
    return calibrated(OwnEncoder())


def of_efficientnet() -> Detector:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = build_encoder("efficientnet-lite0", 32)
    settings = DetectorSettings(views=one_view, space="features", classifier="nearest", tied=True)
    return calibrated(encoder.eval(), settings, size=32)


def of_transformer() -> Detector:
    pytest.importorskip("transformers", reason="needs oddone[transformers]")
    from tiny_transformers import PREPROCESSOR, save_model, tiny_model  # noqa: PLC0415

    source = tiny_source(images=90, size=28)
    with TemporaryDirectory() as folder:
        preprocessor = {**PREPROCESSOR, "crop_size": 28}
        name = save_model(Path(folder) / "dinov2", tiny_model("dinov2"), preprocessor)
        trained = frozen_network(name, 28, source.classes, source.fingerprint)
    return calibrated(trained, size=28)


@pytest.mark.parametrize("make", [of_poolnet, of_own_encoder, of_efficientnet, of_transformer])
def test_a_file_says_what_the_detector_says(make: Callable[[], Detector], tmp_path: Path) -> None:
    detector = make()
    path = tmp_path / "detector.onnx"
    path.write_bytes(onnx_content(detector, fixed_size=True))
    images = new_images(detector.image_size)
    check_same(OnnxDetector.load(path).run(images), detector(list(images)))


@pytest.mark.parametrize("shape", [(1, 16, 16), (5, 16, 16), (2, 40, 23), (1, 9, 30)])
def test_a_file_takes_any_number_of_images_of_any_size(
    detector: Detector, onnx_path: Path, shape: tuple[int, int, int]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    check_same(OnnxDetector.load(onnx_path).run(images), detector(list(images)))


def test_a_file_says_what_it_is(detector: Detector, onnx_path: Path) -> None:
    facts = OnnxDetector.load(onnx_path).facts
    assert facts.classes == detector.classes
    assert (facts.threshold, facts.thresholds) == (detector.threshold, detector.thresholds)
    assert (facts.image_size, facts.views, facts.opset) == (16, 8, 20)
    model = onnx_package().load_model(onnx_path)
    assert [each.version for each in model.opset_import if each.domain == ""] == [20]
    (images,) = model.graph.input
    assert [dim.dim_param or dim.dim_value for dim in images.type.tensor_type.shape.dim] == [
        "batch",
        "height",
        "width",
        3,
    ]


def test_a_file_tells_nothing_of_the_machine(onnx_path: Path) -> None:
    content = onnx_path.read_bytes()
    for folder in (Path(torch.__file__).parent, Path(__file__).parent.parent):
        assert str(folder).encode() not in content


def test_torch_reads_a_pt2_file_that_tells_nothing_of_the_machine(tmp_path: Path) -> None:
    detector, path = of_own_encoder(), tmp_path / "detector.pt2"
    path.write_bytes(pt2_content(detector))
    program = torch.export.load(path).module()
    for images in (new_images(19), new_images(16, number=1)):
        check_same(program(torch.from_numpy(images)), detector(list(images)))
    assert str(Path(__file__).parent.parent.parent).encode() not in path.read_bytes()


def test_an_encoder_that_does_not_do_the_same_for_all_images_is_refused() -> None:
    with pytest.raises(SettingsError, match="does the same for all images"):
        pt2_content(calibrated(CountsImages()), fixed_size=True)
