"""Files whose network computes in int8."""

from pathlib import Path

import pytest
from exports import OwnEncoder, calibrated

from oddone.detector import Detector
from oddone.export.comparison import AurocChange, OnnxScorer, VerdictChange
from oddone.export.files import int8_content
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import onnx_package
from oddone.scoring import score_images
from runs import tiny_source

pytest.importorskip("onnxscript", reason="needs oddone[onnx]")
pytestmark = pytest.mark.filterwarnings("ignore:.*held-out:oddone.errors.DataWarning")
HELD_OUT = tiny_source(images=99, seed=4)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return calibrated(OwnEncoder())


@pytest.fixture(scope="module")
def path(detector: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int8") / "detector.onnx"
    path.write_bytes(int8_content(detector, HELD_OUT, fixed_size=True))
    return path


def test_the_network_and_nothing_else_is_in_int8(path: Path) -> None:
    model = onnx_package().load_model(path)
    weights = {tensor.name for tensor in model.graph.initializer if tensor.data_type == 3}
    inputs = {name for node in model.graph.node for name in node.input if name in weights}
    operations = {node.op_type for node in model.graph.node if inputs & set(node.input)}
    assert len([name for name in weights if name.endswith("weight_quantized")]) == 2
    assert operations <= {"DequantizeLinear", "QuantizeLinear"}
    assert OnnxDetector.load(path).facts.int8


@pytest.mark.parametrize("fixed_size", [True, False])
def test_the_full_checker_of_onnx_finds_nothing(detector: Detector, fixed_size: bool) -> None:
    content = int8_content(detector, HELD_OUT, fixed_size=fixed_size)
    onnx_package().checker.check_model(content, full_check=True)


def test_the_threshold_is_that_of_its_own_scores(detector: Detector, path: Path) -> None:
    opened = OnnxDetector.load(path)
    verdicts = score_images(OnnxScorer(opened), HELD_OUT)
    assert opened.threshold == verdicts.scores.sort().values[-20].item()
    assert opened.threshold != detector.threshold
    assert verdicts.anomalous is not None
    assert int(verdicts.anomalous.sum()) == 19  # a fifth of 100, the new one among them
    assert verdicts.p_values is not None
    assert verdicts.p_values.min().item() == 2 / 100  # the oddest is one of them itself


def test_the_change_is_told(detector: Detector, path: Path) -> None:
    opened = OnnxScorer(OnnxDetector.load(path))
    ind = score_images(detector, HELD_OUT), score_images(opened, HELD_OUT)
    change = VerdictChange.of(*ind)
    assert change.images == 99
    assert 0 < change.median_score <= change.largest_score < 1
    assert f"of 99 images, {change.verdicts} verdicts and {change.labels} labels" in (
        change.describe()
    )
    told = AurocChange.of("weeds", ind, ind)
    assert (told.before, told.after) == (0.5, 0.5)
    assert told.describe() == (
        "AUROC against weeds: 50.00%, and 50.00% by the detector (+0.00 points)"
    )
