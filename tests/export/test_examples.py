"""The programs in examples/onnx, which know nothing of oddone, run as their users run them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.detector import Detector

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "onnx"
NODE_MODULES = Path(os.environ.get("ONNXRUNTIME_NODE", EXAMPLES / "node_modules"))
"""Where npm has put onnxruntime-node."""
HAS_NODE = shutil.which("node") is not None and (NODE_MODULES / "onnxruntime-node").is_dir()


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (20, 24, 3), dtype=np.uint8)


def told(detector: Detector, file: Path, pixels: np.ndarray) -> str:
    """Return the line that an example prints about an image."""
    verdict = detector([pixels])[0]
    name = "anomalous" if verdict.anomalous else detector.classes[verdict.label]
    return f"{file}: {name}, score {verdict.score:.4f}"


def test_python_says_what_the_detector_says(
    detector: Detector, onnx_path: Path, pixels: np.ndarray, tmp_path: Path
) -> None:
    picture = tmp_path / "picture.png"
    Image.fromarray(pixels).save(picture)
    command = [sys.executable, str(EXAMPLES / "score.py"), str(onnx_path), str(picture)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.strip() == told(detector, picture, pixels)


@pytest.mark.skipif(not HAS_NODE, reason="needs node, and npm install in examples/onnx")
def test_javascript_says_what_the_detector_says(
    detector: Detector, onnx_path: Path, pixels: np.ndarray, tmp_path: Path
) -> None:
    script, raw = tmp_path / "score.mjs", tmp_path / "pixels.rgb"
    shutil.copy(EXAMPLES / "score.mjs", script)
    (tmp_path / "node_modules").symlink_to(NODE_MODULES.resolve())
    raw.write_bytes(pixels.tobytes())
    command = ["node", str(script), str(onnx_path), "20", "24", str(raw)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.strip() == told(detector, raw, pixels)
