"""A detector and its ONNX file, exported once for all tests that need any."""

from pathlib import Path

import pytest

from oddone.detector import Detector
from oddone.export.files import onnx_content
from small_detector import fitted


@pytest.fixture(scope="session")
def detector() -> Detector:
    """Return a detector of eight views of 16 x 16 pixels, calibrated on what it was shown."""
    return fitted()


@pytest.fixture(scope="session")
def onnx_path(detector: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its file, which takes images of any size."""
    pytest.importorskip("onnxscript", reason="needs oddone[onnx]")
    path = tmp_path_factory.mktemp("exported") / "detector.onnx"
    path.write_bytes(onnx_content(detector))
    return path
