"""The programs in examples/onnx, which know nothing of oddone, run as their users run them."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.data.decode import BrokenImageError, read_picture
from oddone.detector import Detector
from oddone.export.files import onnx_content

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
    if verdict.anomalous is None:
        name = f"no threshold, most like {name}"
    return f"{file}: {name}, score {verdict.score:.4f}"


def said_by_python(file: Path, picture: Path) -> str:
    command = [sys.executable, str(EXAMPLES / "score.py"), str(file), str(picture)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip()


def test_python_says_what_the_detector_says(
    detector: Detector, onnx_path: Path, pixels: np.ndarray, tmp_path: Path
) -> None:
    picture = tmp_path / "picture.png"
    Image.fromarray(pixels).save(picture)
    assert said_by_python(onnx_path, picture) == told(detector, picture, pixels)


@pytest.mark.parametrize("kind", ["16 bits", "floats", "transparent", "palette"])
def test_python_sees_pictures_of_other_kinds_as_oddone_does(
    detector: Detector, onnx_path: Path, pixels: np.ndarray, tmp_path: Path, kind: str
) -> None:
    grey = pixels[..., 0]
    picture = tmp_path / ("picture.tiff" if kind == "floats" else "picture.png")
    if kind == "16 bits":
        Image.fromarray(grey.astype(np.uint16) * 200).save(picture)
    elif kind == "floats":
        Image.fromarray(grey.astype(np.float32) / 256).save(picture)
    elif kind == "transparent":
        Image.fromarray(np.dstack([pixels, grey])).save(picture)
    else:
        Image.fromarray(grey, "P").save(picture, transparency=bytes(range(256)))
    seen = np.asarray(read_picture(picture))
    assert said_by_python(onnx_path, picture) == told(detector, picture, seen)


def test_python_refuses_pixels_that_oddone_refuses(onnx_path: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.tiff"
    Image.fromarray(np.full((20, 24), 70000, np.int32)).save(picture)
    with pytest.raises(BrokenImageError, match="outside 0 to 65535"):
        read_picture(picture)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        said_by_python(onnx_path, picture)
    assert caught.value.stderr == f"{picture}: its pixels are not from 0 to 65535\n"


def test_without_a_threshold_python_calls_no_picture_normal(
    detector: Detector, pixels: np.ndarray, tmp_path: Path
) -> None:
    bare = replace(detector, calibration=None)
    file, picture = tmp_path / "bare.onnx", tmp_path / "picture.png"
    file.write_bytes(onnx_content(bare))
    Image.fromarray(pixels).save(picture)
    assert said_by_python(file, picture) == told(bare, picture, pixels)


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
