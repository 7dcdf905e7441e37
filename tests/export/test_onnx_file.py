"""ONNX files from anybody: damaged, forged, or none at all."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from oddone.detector import Detector
from oddone.errors import ArtifactError
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import onnx_package, set_facts, to_bytes
from oddone.export.onnx_model import facts_of

pytest.importorskip("onnxscript", reason="needs oddone[onnx]")


def forged(path: Path, target: Path, change: Callable[[Any], None]) -> Path:
    """Write the file with something changed, and a digest that is right; return where it is."""
    model = onnx_package().load_model(path)
    change(model)
    kept = [(entry.key, entry.value) for entry in model.metadata_props if entry.key != "digest"]
    del model.metadata_props[:]
    for key, value in kept:
        model.metadata_props.add(key=key, value=value)
    target.write_bytes(to_bytes(model))
    return target


def with_entry(name: str, value: object) -> Callable[[Any], None]:
    """Return a function that changes an entry of a model's metadata."""

    def change(model: Any) -> None:
        for entry in model.metadata_props:
            if entry.key == name:
                entry.value = json.dumps(value)

    return change


def test_a_class_whose_name_is_no_unicode_is_called_as_in_tables(
    detector: Detector, onnx_path: Path, tmp_path: Path
) -> None:
    names = ("caf\udce9", *detector.classes[1:])
    trained = replace(detector.embedder.trained, classes=names)
    odd = replace(detector, embedder=replace(detector.embedder, trained=trained))
    facts = facts_of(odd, fixed_size=False)
    path = forged(onnx_path, tmp_path / "odd.onnx", lambda model: set_facts(model, facts))
    assert OnnxDetector.load(path).classes == ("caf\\udce9", *names[1:])
    assert msgspec.json.decode(msgspec.json.encode(facts))["classes"][0] == "caf\\udce9"


def test_a_changed_bit_is_found(onnx_path: Path, tmp_path: Path) -> None:
    content = bytearray(onnx_path.read_bytes())
    for place in (0, 100, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        (tmp_path / "d.onnx").write_bytes(changed)
        with pytest.raises(ArtifactError, match="damaged|no file of oddone export"):
            OnnxDetector.load(tmp_path / "d.onnx")


def test_what_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"onnx", b"\x08\x0a" * 1000):
        (tmp_path / "d.onnx").write_bytes(content)
        with pytest.raises(ArtifactError, match="make one with oddone export"):
            OnnxDetector.load(tmp_path / "d.onnx")
    with pytest.raises(ArtifactError, match="does not exist"):
        OnnxDetector.load(tmp_path / "missing.onnx")


def test_a_file_that_is_too_long_is_not_read(
    onnx_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.export.onnx_file.MOST_BYTES", 1000)
    with pytest.raises(ArtifactError, match="over 1,000 bytes"):
        OnnxDetector.load(onnx_path)


def test_a_file_with_another_checksum_is_refused(onnx_path: Path) -> None:
    with pytest.raises(ArtifactError, match="do not use it"):
        OnnxDetector.load(onnx_path, sha256="0" * 64)


def test_tensors_in_other_files_are_refused(onnx_path: Path, tmp_path: Path) -> None:
    def outside(model: Any) -> None:
        tensor = model.graph.initializer[0]
        tensor.data_location = onnx_package().TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")

    with pytest.raises(ArtifactError, match="tensors in other files"):
        OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", outside))


def test_tensors_in_other_files_are_found_inside_of_branches(
    onnx_path: Path, tmp_path: Path
) -> None:
    def outside(model: Any) -> None:
        branches = [node for node in model.graph.node if node.op_type == "If"]
        node = branches[0].attribute[0].g.node.add(op_type="Constant", output=["hidden"])
        tensor = node.attribute.add(name="value", type=onnx_package().AttributeProto.TENSOR).t
        tensor.data_location = onnx_package().TensorProto.EXTERNAL

    with pytest.raises(ArtifactError, match="tensors in other files"):
        OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", outside))


@pytest.mark.parametrize(("domain", "operation"), [("", "Loop"), ("", "Scan"), ("evil", "Run")])
def test_what_never_ends_or_is_unknown_is_refused(
    onnx_path: Path, tmp_path: Path, domain: str, operation: str
) -> None:
    def added(model: Any) -> None:
        model.graph.node.add(op_type=operation, domain=domain, output=["more"])

    with pytest.raises(ArtifactError, match=f"calls '.*{operation}'"):
        OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", added))


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("kind", "cat", "its kind is"),
        ("format", 2, "install a newer one"),
        ("classes", [], "classes"),
        ("classes", ["a", "a", "b"], "the class 'a' is there twice"),
        ("classes", ["a", "", "b"], "a class has the empty name ''"),
        ("classes", ["a", "\x1b[2J", "b"], r"the class '\\x1b\[2J' has control characters"),
        ("classes", "abc", "array"),
        ("image_size", 10**9, "are not read"),
        ("batch_size", 0, "are not read"),
        ("threshold", None, "and not both"),
        ("thresholds", [1.0], "no 3 numbers"),
        ("thresholds", [1.0, 2.0, 1e999], "metadata that oddone did not write"),
    ],
)
def test_metadata_that_contradict_are_refused(
    onnx_path: Path, tmp_path: Path, name: str, value: object, wrong: str
) -> None:
    path = forged(onnx_path, tmp_path / "d.onnx", with_entry(name, value))
    with pytest.raises(ArtifactError, match=wrong) as caught:
        OnnxDetector.load(path)
    assert "\n" not in str(caught.value)


def test_missing_metadata_are_named(onnx_path: Path, tmp_path: Path) -> None:
    def without(model: Any) -> None:
        del model.metadata_props[0]

    with pytest.raises(ArtifactError, match="'kind' is missing"):
        OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", without))


def test_a_graph_that_makes_no_sense_is_refused(onnx_path: Path, tmp_path: Path) -> None:
    def cut(model: Any) -> None:
        del model.graph.node[5]

    with pytest.raises(ArtifactError, match="cannot be used") as caught:
        OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", cut))
    assert "\n" not in str(caught.value)


def test_labels_that_are_no_class_are_refused(onnx_path: Path, tmp_path: Path) -> None:
    def fewer(model: Any) -> None:
        with_entry("classes", ["a", "b", "c", "d"])(model)
        with_entry("thresholds", [1.0] * 4)(model)

    opened = OnnxDetector.load(forged(onnx_path, tmp_path / "d.onnx", fewer))
    with pytest.raises(ArtifactError, match="as probabilities of 1 images"):
        opened.run(np.zeros((1, 16, 16, 3), dtype=np.uint8))


@pytest.mark.usefixtures("as_shipped")
def test_an_image_that_the_graph_cannot_take_is_one_error(onnx_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be run on images of 16 x 16"):
        OnnxDetector.load(onnx_path).run(np.zeros((1, 16, 16, 4), dtype=np.uint8))


def test_nothing_is_explained_by_a_file(onnx_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no training images"):
        OnnxDetector.load(onnx_path).score([], neighbours=3)


def test_images_are_scored_without_torch(onnx_path: Path, tmp_path: Path) -> None:
    words = ["score", str(onnx_path), "fashion:known#test", "--out", str(tmp_path / "s.csv")]
    script = f"""
import sys
from oddone.cli import app
code = app.meta({words})
assert code == 0, code
assert "torch" not in sys.modules
assert "onnxruntime" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)  # noqa: S603
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 1601
