import hashlib
import json
import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from detectors import HELD_OUT
from hypothesis import given, settings as hypothesis_settings, strategies as st
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from oddone import __version__
from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings, Explanation, Space
from oddone.detector.artifact import FORMAT
from oddone.detector.settings import Classifier
from oddone.encoders import TrainedNetwork, load_network
from oddone.errors import ArtifactError, DataWarning, SettingsError
from oddone.fusion import FUSIONS, harmonic, nearest
from oddone.tensor_file import content_digest
from oddone.training import RunDirectory
from oddone.training.initialise import initial_network
from oddone.transforms import ViewSet, one_view, rotations
from runs import tiny_settings

Header = dict[str, Any]
Tensors = dict[str, Tensor]
RUNNING_MEAN = "network.encoder.stem.1.running_mean"
RUNNING_VAR = "network.encoder.stem.1.running_var"


@pytest.fixture(scope="session")
def file(detector: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the detector, with a provenance."""
    path = tmp_path_factory.mktemp("saved") / "detector.oddone"
    replace(detector, provenance={"command": "oddone train tiny", "steps": [6, 1.5]}).save(path)
    return path


def assert_same_verdicts(one: Detector, other: Detector, images: np.ndarray) -> None:
    for ours, theirs in zip(one(images), other(images), strict=True):
        assert ours[:4] == theirs[:4]
        assert ours.probabilities is not None
        assert theirs.probabilities is not None
        assert torch.equal(ours.probabilities, theirs.probabilities)


def assert_same_explanations(ours: list[Explanation], theirs: list[Explanation]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.verdict[:4] == other.verdict[:4]
        assert torch.equal(one.distances, other.distances)
        for near, its_copy in zip(one.neighbours, other.neighbours, strict=True):
            assert near[:3] == its_copy[:3]
            assert np.array_equal(near.thumbnail, its_copy.thumbnail)


def header_of(path: Path) -> Header:
    """Return the header of a file, by safetensors' own reader."""
    with safe_open(path, framework="pt") as content:
        return {name: json.loads(entry) for name, entry in content.metadata().items()}


def test_a_detector_comes_back_as_it_was(detector: Detector, file: Path, source: ImageSet) -> None:
    loaded = Detector.load(file)
    assert_same_verdicts(loaded, detector, source.images)
    images = source.images[[0, 70, 90]]
    assert_same_explanations(loaded.explain(images), detector.explain(images))
    assert loaded.calibration is not None
    assert detector.calibration is not None
    assert torch.equal(loaded.calibration.scores, detector.calibration.scores)
    assert loaded.calibration.false_alarms == 0.1
    assert loaded.threshold == detector.threshold
    assert loaded.provenance == {"command": "oddone train tiny", "steps": [6, 1.5]}
    assert loaded.references.paths == detector.references.paths
    ours, theirs = loaded.embedder.trained, detector.embedder.trained
    assert (ours.model, ours.rotations) == (theirs.model, theirs.rotations)
    assert ours.classes == ("class 0", "class 1", "class 2")
    assert (ours.image_size, ours.data_fingerprint) == (16, "tiny0")
    assert not ours.network.training
    convolution = ours.network.encoder.stem[0].weight
    assert convolution.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("views", "space", "fuse", "classifier"),
    [
        (one_view, "head", "average", "nearest"),
        (rotations, "features", "nearest", "linear"),
        (ViewSet("mine", (0, 1, 0), (False, False, True)), "head", "harmonic", "linear"),
    ],
)
def test_every_choice_comes_back(
    trained: TrainedNetwork,
    source: ImageSet,
    tmp_path: Path,
    views: ViewSet,
    space: Space,
    fuse: str,
    classifier: Classifier,
) -> None:
    settings = DetectorSettings(
        views=views,
        space=space,
        fuse=FUSIONS[fuse],
        tied=space == "features",
        classifier=classifier,
    )
    detector = Detector.fit(trained, source, settings)
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(str(tmp_path / "a.oddone"))
    assert_same_verdicts(loaded, detector, source.images)
    assert loaded.embedder.views == views
    assert loaded.space == space
    assert loaded.fuse is FUSIONS[fuse]
    assert (loaded.classifier is None) == (classifier == "nearest")
    assert loaded.calibration is None
    assert loaded.provenance == {}


def test_a_network_with_classifiers_comes_back(source: ImageSet, tmp_path: Path) -> None:
    detector = Detector.fit(untrained(source, objective="cross-entropy"), source)
    assert detector.space == "features"
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone").embedder.trained.network
    assert loaded.classifier is not None
    assert torch.equal(
        loaded.classifier.weight, detector.embedder.trained.network.classifier.weight
    )


def test_a_loaded_detector_is_calibrated_and_saved_like_any_other(
    file: Path, source: ImageSet, tmp_path: Path
) -> None:
    loaded = Detector.load(file)
    loaded.save(tmp_path / "again.oddone")
    assert header_of(tmp_path / "again.oddone") == header_of(file)  # the digest among all else
    path = tmp_path / "detector.oddone"
    path.write_bytes(file.read_bytes())
    stricter = Detector.load(path).calibrate(source, false_alarms=0.3, indices=HELD_OUT)
    stricter.save(path)
    assert Detector.load(path).threshold == stricter.threshold < loaded.threshold


def test_thresholds_per_class_come_back(
    detector: Detector, source: ImageSet, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        per_class = detector.calibrate(source, false_alarms=0.3, per_class=True, indices=HELD_OUT)
    path = tmp_path / "a.oddone"
    per_class.save(path)
    loaded = Detector.load(path)
    assert len(set(per_class.thresholds)) > 1
    assert loaded.thresholds == per_class.thresholds
    assert loaded.threshold == per_class.threshold
    assert_same_verdicts(loaded, per_class, source.images)
    per_class.calibrate(source, false_alarms=0.3, indices=HELD_OUT).save(path)
    assert len(set(Detector.load(path).thresholds)) == 1  # no labels are left behind


def test_the_file_says_what_it_is_and_anyone_can_read_it(file: Path) -> None:
    about = header_of(file)
    assert (about["kind"], about["format"], about["oddone"]) == ("detector", FORMAT, __version__)
    assert about["classes"] == ["class 0", "class 1", "class 2"]
    assert about["model"]["encoder_name"] == "resnet10-w16"
    assert (about["rotations"], about["space"], about["fuse"]) == ("task", "head", "harmonic")
    assert about["views"]["name"] == "rotations_and_mirrors"
    assert about["views"]["poses"] == [0, 1, 2, 3, 0, 1, 2, 3]
    with safe_open(file, framework="pt") as content:
        assert {"gaussians.mean", "references.labels", "calibration.scores"} < set(content.keys())


# Saving


def test_what_a_file_cannot_hold_is_refused_and_nothing_is_written(
    detector: Detector, tmp_path: Path
) -> None:
    path = tmp_path / "a.oddone"
    with pytest.raises(SettingsError, match="fuse=<lambda> is .* your own.* average, nearest"):
        replace(detector, fuse=lambda distances: distances.amax(dim=0)).save(path)
    with pytest.raises(SettingsError, match="provenance cannot be written as JSON.*PosixPath"):
        replace(detector, provenance={"source": Path()}).save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(detector: Detector, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"none/a.oddone cannot be written: No such file"):
        detector.save(tmp_path / "none" / "a.oddone")


def test_a_full_disk_leaves_the_old_file(
    detector: Detector, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.oddone"
    path.write_bytes(file.read_bytes())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="a.oddone cannot be written: No space left .*; make"):
        replace(detector, fuse=nearest).save(path)
    assert Detector.load(path).fuse is harmonic
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.oddone"]


def test_a_written_file_is_alone(detector: Detector, tmp_path: Path) -> None:
    detector.save(tmp_path / "a.oddone")
    assert [path.name for path in tmp_path.iterdir()] == ["a.oddone"]


# Files that are missing, cut short, foreign, newer or damaged


@pytest.mark.parametrize(
    ("name", "start", "use"),
    [
        ("d.onnx", b"\x08\x0a\x12\x06oddone", "score images by it with oddone score"),
        ("d.PT2", b"PK\x03\x04\x00\x00\x00\x00\x00", "load it with torch.export.load"),
    ],
)
def test_of_an_exported_file_the_detector_is_asked_for(
    tmp_path: Path, name: str, start: bytes, use: str
) -> None:
    path = tmp_path / name
    path.write_bytes(start + bytes(100))
    with pytest.raises(ArtifactError) as caught:
        Detector.load(path)
    assert str(caught.value) == (
        f"{path} looks like a file of oddone export, from which no detector can be loaded; name "
        f"the run or the .oddone file that it was made from, or {use}"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="none.oddone does not exist"):
        Detector.load(tmp_path / "none.oddone")
    with pytest.raises(ArtifactError, match="holds no detector.oddone; name the file, or the dir"):
        Detector.load(tmp_path)


def test_a_file_that_may_not_be_read_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("oddone.tensor_file.open_regular", forbidden)
    with pytest.raises(ArtifactError, match="detector.oddone cannot be read: Permission denied"):
        Detector.load(file)


@pytest.mark.parametrize("share", [0, 0.2, 0.5, 0.9, 0.99])
def test_a_file_that_was_cut_short_is_told_as_such(
    file: Path, tmp_path: Path, share: float
) -> None:
    content, path = file.read_bytes(), tmp_path / "a.oddone"
    kept = int(share * len(content))
    for length in (kept, kept + 1, kept + 8, kept + 9, kept + 100):
        path.write_bytes(content[:length])
        with pytest.raises(ArtifactError, match=f"is cut short: it has {length:,} bytes of"):
            Detector.load(path)
    path.write_bytes(content[:-1])
    with pytest.raises(ArtifactError, match=f"bytes of {len(content):,}; copy it again"):
        Detector.load(path)


def test_a_file_of_another_kind_is_told_as_such(
    file: Path, run: RunDirectory, tmp_path: Path
) -> None:
    path = tmp_path / "a.oddone"
    for content in (b"a text of some length", pickle.dumps({"weights": [1.0] * 9})):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match="a.oddone is no safetensors file"):
            Detector.load(path)
    Image.new("RGB", (9, 9)).save(path, "PNG")
    with pytest.raises(ArtifactError, match="a.oddone is no safetensors file"):
        Detector.load(path)
    for header in (None, {"format": "pt"}, {"kind": '"classifier"'}):
        path.write_bytes(save({"weight": torch.zeros(3)}, header))
        with pytest.raises(ArtifactError, match="is a safetensors file, but not a detector"):
            Detector.load(path)
    with pytest.raises(ArtifactError, match="is an encoder, not a detector; .*Detector.fit"):
        Detector.load(run.encoder_path)
    with pytest.raises(ArtifactError, match="is a detector, not an encoder"):
        load_network(file)


def test_a_file_that_goes_on_after_its_end_is_damaged(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.oddone").write_bytes(file.read_bytes() + b"more")
    with pytest.raises(ArtifactError, match="a.oddone is damaged"):
        Detector.load(tmp_path / "a.oddone")


@hypothesis_settings(max_examples=40)
@given(st.data())
def test_no_byte_can_change_unnoticed(file: Path, data: st.DataObject) -> None:
    content = bytearray(file.read_bytes())
    header_end = 8 + int.from_bytes(content[:8], "little")
    in_header = data.draw(st.booleans())
    place = data.draw(st.integers(*((0, header_end) if in_header else (8, len(content) - 1))))
    content[place] ^= data.draw(st.integers(1, 255))
    path = file.with_name("flipped.oddone")
    path.write_bytes(content)
    try:
        Detector.load(path)
    except ArtifactError:
        return
    assert content[8:header_end].split() == file.read_bytes()[8:header_end].split()  # only blanks


def test_a_digest_that_came_by_another_way_is_compared(file: Path, tmp_path: Path) -> None:
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    assert Detector.load(file, sha256=right).threshold == Detector.load(file).threshold
    assert Detector.load(file, sha256=f" {right.upper()}\n").classes
    with pytest.raises(ArtifactError, match=f"has the SHA-256 {right}, not 0{{64}}; do not use it"):
        Detector.load(file, sha256="0" * 64)
    run = tmp_path / "run"
    run.mkdir()
    (run / "detector.oddone").write_bytes(file.read_bytes())
    with pytest.raises(ArtifactError, match="run/detector.oddone has the SHA-256"):
        Detector.load(run, sha256="0" * 64)


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, "0" * 63])
def test_what_is_no_digest_is_refused(file: Path, sha256: str) -> None:
    with pytest.raises(SettingsError, match="sha256='.*': give the 64 hexadecimal digits"):
        Detector.load(file, sha256=sha256)


# Files that somebody made up: each is whole, and its digest is right


def forge(file: Path, change: Callable[[Header, Tensors], None]) -> Path:
    """Return a copy of a detector's file with something changed, and the digest made to fit."""
    header, tensors = header_of(file), load(file.read_bytes())
    change(header, tensors)
    del header["digest"]
    entries = {
        name: entry.decode() if isinstance(entry, bytes) else json.dumps(entry)
        for name, entry in header.items()
    }
    digest = json.dumps(content_digest(tensors, entries))
    path = file.with_name("forged.oddone")
    path.write_bytes(save(tensors, {**entries, "digest": digest}))
    return path


def with_entry(name: str, entry: object) -> Callable[[Header, Tensors], None]:
    """Return a change that sets an entry; inside another by a path like "model.head_dim"."""

    def change(header: Header, _: Tensors) -> None:
        *above, last = name.split(".")
        for part in above:
            header = header[part]
        header[last] = entry

    return change


def without(name: str) -> Callable[[Header, Tensors], None]:
    def change(header: Header, tensors: Tensors) -> None:
        del (header if name in header else tensors)[name]

    return change


def with_tensor(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Header, Tensors], None]:
    def apply(_: Header, tensors: Tensors) -> None:
        tensors[name] = change(tensors[name]).contiguous()

    return apply


def with_new(name: str, tensor: Tensor) -> Callable[[Header, Tensors], None]:
    def apply(_: Header, tensors: Tensors) -> None:
        tensors[name] = tensor.clone()

    return apply


def spoilt(numbers: Tensor) -> Tensor:
    """Return numbers of which the last is none."""
    numbers = numbers.clone()
    numbers.reshape(-1)[-1] = torch.nan
    return numbers


def test_an_unchanged_forgery_is_a_detector(file: Path) -> None:
    forged = forge(file, with_entry("format", FORMAT))
    assert Detector.load(forged).threshold == Detector.load(file).threshold


def test_a_newer_format_asks_for_a_newer_oddone(file: Path) -> None:
    forged = forge(file, with_entry("format", FORMAT + 1))
    with pytest.raises(
        ArtifactError,
        match=f"has format {FORMAT + 1}, and oddone {__version__} reads up to {FORMAT}; upgrade",
    ):
        Detector.load(forged)


def test_an_edited_header_or_tensor_is_altered(file: Path) -> None:
    content = file.read_bytes()
    edited = file.with_name("edited.oddone")
    for old, new in ((b"class 0", b"class 9"), (b"tiny[7]", b"tiny[8]"), (b"0.1", b"0.9")):
        assert old in content
        edited.write_bytes(content.replace(old, new))
        with pytest.raises(ArtifactError, match="altered after it was written.*its digest"):
            Detector.load(edited)
    edited.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ArtifactError, match="altered after it was written"):
        Detector.load(edited)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_entry("format", "1"), "format is '1': Expected `int | null`, got `str`"),
        (with_entry("format", b"true"), "format is True: Expected `int | null`, got `bool`"),
        (with_entry("format", 0), f"reads format {FORMAT}, not 0"),
        (with_entry("model", []), r"model is \[\]: Expected `object`, got `array`"),
        (with_entry("model", b"{"), "model is no JSON"),
        (with_entry("model", b"[" * 100_000), "model is no JSON"),
        (with_entry("model", b"1" * 5000), "model is no JSON"),
        (with_entry("model.encoder_name", 18), "Expected `str`, got `int`"),
        (with_entry("model.encoder_name", "resnet"), "cannot be rebuilt: there is no encoder"),
        (with_entry("model.encoder_name", "resnet18"), "do not fit the encoder 'resnet18'"),
        (with_entry("model.head_dim", 8.5), r"Expected `int \| null`, got `float`"),
        (with_entry("model.head_dim", None), "5 differ, such as 'head.0.bias'"),
        (with_entry("model.head_dim", 0), "both must be at least 1"),
        (with_entry("model.head_dim", 2**29), "the weights in .* do not fit"),
        (with_entry("model.head_hidden", 2**30), "the weights in .* do not fit"),
        (with_entry("model.head_hidden", 2**31), "its head is too large"),
        (with_entry("model.head_hidden", 2**100), "its head is too large"),
        (with_entry("rotations", "all"), "Invalid enum value 'all'"),
        (with_entry("classes", "abc"), "classes is 'abc': Expected `array`"),
        (with_entry("classes", [0, 1, 2]), "Expected `str`, got `int`"),
        (with_entry("classes", []), "it has no classes"),
        (with_entry("classes", ["a", "b"]), r"gaussians.mean is .*\[12, 8\], not .*\[8, 8\]"),
        (with_entry("classes", ["a", "b", "a"]), "the class 'a' is there twice"),
        (with_entry("classes", ["a", "b" * 5000, "c"]), "a class has a name of 5,000 characters"),
        (with_entry("classes", ["a", "", "c"]), "a class has the empty name ''"),
        (with_entry("classes", ["a", "b\x1b[2J", "c"]), r"'b\\x1b\[2J' has control characters"),
        (with_entry("classes", ["a", "b\nc", "d"]), r"'b\\nc' has control characters"),
        (with_entry("image_size", 0), "image_size is 0: Expected `int` >= 1"),
        (with_entry("image_size", 10**9), "image_size is 1000000000: Expected `int` <= 1024"),
        (with_entry("image_size", 16.5), "image_size is 16.5: Expected `int`"),
        (without("data_fingerprint"), "data_fingerprint"),
        (with_entry("views", "rotations"), "views is 'rotations': Expected `object`"),
        (with_entry("views.poses", [0]), "give all for each view"),
        (with_entry("views.poses", [1, 0, 2, 3, 0, 1, 2, 3]), "the image as it is first"),
        (with_entry("views.poses", [0, 1, 2, 9, 0, 1, 2, 9]), "without gaps"),
        (with_entry("views.mirrored", [0] * 8), "Expected `bool`, got `int`"),
        (
            with_entry("views", {"name": "many", "poses": [0] * 65, "mirrored": [False] * 65}),
            "it has 65 views, over 64",
        ),
        (
            with_entry("views", {"name": "one", "poses": [0], "mirrored": [False]}),
            r"gaussians.mean is .*\[12, 8\], not .*\[3, 8\]",
        ),
        (with_entry("space", "tail"), "space is 'tail': Invalid enum value"),
        (with_entry("space", "features"), r"gaussians.mean is .*\[12, 8\], not .*\[12, 128\]"),
        (with_entry("fuse", "product"), "fuse is 'product', which is none of average"),
        (with_entry("provenance", ["a" * 99]), "provenance is .*: Expected `object`, got `array`"),
        (with_entry("false_alarms", 2.0), "36 scores and false_alarms=2 are no calibration"),
        (with_entry("false_alarms", float("nan")), "false_alarms=nan are no calibration"),
        (with_entry("false_alarms", "all"), "false_alarms is 'all': Expected `float | null`"),
        (with_entry("stages", [[[0], 1.0, 0.0, 1.0]]), "stages is .*Expected `array`"),
        (with_entry("stages", [[[0, 9], 1.0, 0.0, 1.0, 1.0]]), r"views \[\[0, 9\]\] do not go"),
        (with_entry("stages", [[[0], float("nan"), 0.0, 1.0, 1.0]]), "not all are numbers"),
        (without("calibration.scores"), "there is no calibration.scores"),
        (with_tensor("calibration.scores", lambda s: s[:0]), "0 scores and .* no calibration"),
        (with_tensor("calibration.scores", lambda s: s.flip(0)), "are no calibration"),
        (with_tensor("calibration.scores", lambda s: s * torch.nan), "scores .* not finite"),
        (with_tensor("calibration.scores", Tensor.float), r"torch.float32 \[36\], not .*\[any\]"),
        (with_new("calibration.labels", torch.full((36,), 3)), "calibration.* none of 3 classes"),
        (with_new("calibration.labels", torch.full((36,), -1)), "calibration.* none of 3 classes"),
        (with_new("calibration.labels", torch.zeros(36)), "torch.float32 .*, not torch.int64"),
        (with_new("calibration.labels", torch.full((35,), 1)), r"int64 \[35\], not .*\[36\]"),
        (without("false_alarms"), "calibration.scores is there, which nothing of it uses"),
        (without("probe.weight"), "probe.bias is there, which nothing of it uses"),
        (with_new("more", torch.ones(1)), "more is there, which nothing of it uses"),
        (with_new("network.more", torch.ones(1)), "1 differ, such as 'more'"),
        (without("gaussians.mean"), "there is no gaussians.mean"),
        (with_tensor("gaussians.mean", spoilt), "gaussians.mean has numbers that are not finite"),
        (with_tensor("gaussians.whitening", spoilt), "gaussians.whitening has .* not finite"),
        (with_tensor("probe.weight", spoilt), "probe.weight has numbers that are not finite"),
        (with_tensor("references.embeddings", spoilt), "references.embeddings .* not finite"),
        (with_tensor("network.head.2.bias", spoilt), "head.2.bias has .* not finite"),
        (with_tensor("network.head.2.bias", lambda b: b * torch.inf), "head.2.bias .* not finite"),
        (with_tensor(RUNNING_VAR, spoilt), "running_var has .* not fin"),
        (with_tensor(RUNNING_MEAN, lambda mean: mean + torch.inf), "running_mean .* not finite"),
        (with_tensor(RUNNING_VAR, lambda var: var + torch.inf), "running_var .* not finite"),
        (with_tensor(RUNNING_VAR, torch.neg), "stem.1.running_var has variances below 0"),
        (without("probe.bias"), "there is no probe.bias"),
        (with_tensor("gaussians.mean", Tensor.double), "torch.float64.*not torch.float32"),
        (with_tensor("gaussians.whitening", lambda w: w[0]), r"is torch.float32 \[8, 8\], not"),
        (without("network.head.2.bias"), "1 differ, such as 'head.2.bias'"),
        (with_tensor("network.head.2.bias", lambda b: b[:, None]), "do not fit"),
        (with_tensor("network.head.2.bias", Tensor.double), "do not fit"),
        (with_entry("paths", ["only one"]), r"references.labels is .*\[60\], not .*\[1\]"),
        (with_entry("paths", [None] * 60), "Expected `str`, got `null`"),
        (with_tensor("references.labels", lambda label: label + 1), "none of 3 classes"),
        (with_tensor("references.labels", lambda label: label - 1), "none of 3 classes"),
        (with_tensor("references.embeddings", Tensor.float), "torch.float32.*not torch.float16"),
        (with_tensor("references.ends", lambda ends: ends + 1), "do not follow one another"),
        (with_tensor("references.ends", lambda ends: ends.flip(0)), "do not follow one another"),
        (with_tensor("references.ends", lambda ends: ends - 10**12), "do not follow one another"),
        (with_tensor("references.thumbnails", lambda jpeg: jpeg[:-1]), "do not follow"),
        (with_tensor("references.thumbnails", Tensor.char), "torch.int8 .*, not torch.uint8"),
    ],
)
@pytest.mark.usefixtures("as_shipped")
def test_contents_that_do_not_fit_together_are_refused(
    file: Path, change: Callable[[Header, Tensors], None], message: str
) -> None:
    with pytest.raises(ArtifactError, match=message) as caught:
        Detector.load(forge(file, change))
    assert str(caught.value).count("\n") == 0
    assert "forged.oddone" in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        {"weight": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}},
        {"weight": {"dtype": "F32", "shape": [0, 2**63, 4], "data_offsets": [0, 0]}},
        {"weight": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 1]}},
        {"__metadata__": {"kind": 1}},
        {"__metadata__": []},
    ],
)
def test_a_header_that_makes_no_sense_is_damage(tmp_path: Path, header: Header) -> None:
    text = json.dumps(header).encode()
    path = tmp_path / "a.oddone"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"0")
    with pytest.raises(ArtifactError, match="a.oddone is (damaged|a safetensors file, but)"):
        Detector.load(path)


def test_a_thumbnail_that_is_no_small_jpeg_is_refused_when_it_is_shown(
    file: Path, source: ImageSet
) -> None:
    nonsense = with_tensor("references.thumbnails", torch.zeros_like)
    loaded = Detector.load(forge(file, nonsense))
    loaded(source.images[:1])
    with pytest.raises(ArtifactError, match="a thumbnail in the detector is no JPEG"):
        loaded.explain(source.images[:1])


# Networks with an encoder of the user's own


class OwnEncoder(nn.Module):
    """An encoder with a part that no state dict holds."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, 3)
        self.register_buffer("scale", torch.full((1,), 2.0), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.convolution(images).mean(dim=(2, 3)) * self.scale


def untrained(
    source: ImageSet, encoder: nn.Module | None = None, **changes: object
) -> TrainedNetwork:
    """Return a network with the weights it begins with, which is trained enough for a file."""
    settings = tiny_settings(**changes)
    network = initial_network(source, settings, encoder=encoder).eval()
    return TrainedNetwork(
        network, settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )


def test_an_encoder_of_ones_own_is_passed_again(source: ImageSet, tmp_path: Path) -> None:
    torch.manual_seed(0)
    detector = Detector.fit(untrained(source, OwnEncoder()), source)
    path = tmp_path / "a.oddone"
    detector.save(path)
    assert_same_verdicts(Detector.load(path, encoder=OwnEncoder()), detector, source.images)
    with pytest.raises(
        ArtifactError,
        match="do not fit the encoder 'resnet10-w16' .*one of your own is passed as encoder=",
    ):
        Detector.load(path)
    with pytest.raises(ArtifactError, match=r"do not fit your OwnEncoder .*pass the encoder"):
        Detector.load(path, encoder=OwnEncoder(width=6))


def test_an_encoder_with_tied_weights_comes_back_tied(source: ImageSet, tmp_path: Path) -> None:
    def tied_encoder() -> nn.Sequential:
        one, other = nn.Linear(5, 5), nn.Linear(5, 5)
        other.weight = one.weight
        return nn.Sequential(OwnEncoder(), one, nn.ReLU(), other)

    torch.manual_seed(0)
    detector = Detector.fit(untrained(source, tied_encoder()), source)
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone", encoder=tied_encoder())
    assert_same_verdicts(loaded, detector, source.images)
    encoder = loaded.embedder.trained.network.encoder
    assert encoder[1].weight is encoder[3].weight
