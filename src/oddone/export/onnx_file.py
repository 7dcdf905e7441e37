"""An ONNX file of a detector: what it says of itself, and what is checked before it is used.

Nothing here needs torch. Whoever can write a file can write its digest, so all that is read is
checked as if somebody else had written it.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, get_type_hints

import msgspec

from oddone.data.class_names import class_name_faults
from oddone.errors import ArtifactError, SettingsError
from oddone.files import check_sha256, read_regular

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

ENDING = ".onnx"
KIND = "oddone detector"
FORMAT = 1
INPUT = "images"
SCORED = ("score", "label", "probabilities")
DECIDED = (*SCORED, "p_value", "anomalous")
MOST_BYTES = 2**31 - 1
"""As protobuf has it."""
LARGEST_IMAGE = 1024
MOST_IMAGES = 2**20
# An entry of the metadata in protobuf: key and value, each after its tag and length.
_DIGEST = b"\x0a\x06digest\x12\x40"
_NO_DIGEST = b"0" * 64
_ENDLESS = {"Loop", "Scan", "SequenceMap"}


@dataclass(frozen=True, kw_only=True)
class OnnxFacts:
    """What the metadata of a file says, each entry as JSON."""

    kind: str
    format: int
    version: str
    """That of oddone."""
    opset: int
    classes: tuple[str, ...]
    image_size: int
    fixed_size: bool
    """Whether images must have that size; otherwise the graph resizes them."""
    views: int
    """How many views of an image are looked at."""
    batch_size: int
    """How many images make a good batch."""
    int8: bool
    threshold: float | None
    """The score above which an image is anomalous, by all classes together."""
    thresholds: tuple[float, ...] | None
    """The threshold of each predicted class."""
    false_alarms: float | None
    detector_sha256: str | None
    """Of the file that this one was made from."""


def onnx_package() -> ModuleType:
    """Return the package onnx, or raise a SettingsError that says how to install it."""
    try:
        import onnx  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise _without_extra() from error
    package: ModuleType = onnx
    return package


def onnxruntime_package() -> ModuleType:
    """Return the package onnxruntime, or raise a SettingsError that says how to install it."""
    try:
        import onnxruntime  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise _without_extra() from error
    onnxruntime.set_default_logger_severity(4)  # what goes wrong is raised too
    package: ModuleType = onnxruntime
    return package


def _without_extra() -> SettingsError:
    return SettingsError("ONNX files need packages that are not here: pip install 'oddone[onnx]'")


# --- Writing ----------------------------------------------------------------------------------


def set_facts(model: "ModelProto", facts: OnnxFacts) -> None:
    """Let the metadata of a model say these facts, and nothing else."""
    del model.metadata_props[:]
    for name, value in asdict(facts).items():
        model.metadata_props.add(key=name, value=json.dumps(value))


def to_bytes(model: "ModelProto") -> bytes:
    """Return the file of a model, with a digest in its metadata that tells of damage."""
    if model.ByteSize() > MOST_BYTES - 100:
        raise SettingsError(
            f"the graph has {model.ByteSize():,} bytes, and an ONNX file at most {MOST_BYTES:,}; "
            f"export to a file that ends in .pt2"
        )
    model.metadata_props.add(key="digest", value=_NO_DIGEST.decode())
    content: bytes = model.SerializeToString(deterministic=True)
    before, _, after = content.rpartition(_DIGEST + _NO_DIGEST)
    digest = hashlib.sha256(content).hexdigest().encode()
    return before + _DIGEST + digest + after


# --- Reading ----------------------------------------------------------------------------------


def read_model(path: Path, sha256: str | None = None) -> bytes:
    """Return the content of a file that is whole, and whose graph only computes."""
    content = _content(path)
    if sha256 is not None:
        check_sha256(path, content, sha256)
    before, mark, rest = content.rpartition(_DIGEST)
    if not mark:
        raise ArtifactError(f"{path} is no file of oddone export; make one with oddone export")
    unsigned = before + mark + _NO_DIGEST + rest[64:]
    if hashlib.sha256(unsigned).hexdigest().encode() != rest[:64]:
        raise ArtifactError(f"{path} is damaged: its digest does not match; copy it again")
    return content


def read_facts(path: Path, content: bytes) -> OnnxFacts:
    """Return what a file says of itself, once all of it is known to be harmless and consistent."""
    onnx = onnx_package()
    from google.protobuf.message import DecodeError  # noqa: PLC0415  (comes with onnx)

    try:
        model = onnx.load_model_from_string(content)
    except (DecodeError, ValueError, TypeError) as error:
        raise ArtifactError(f"{path} is no ONNX file ({error}); make it anew") from error
    _check_graph(path, model)
    return _facts(path, {entry.key: entry.value for entry in model.metadata_props})


def _content(path: Path) -> bytes:
    if not path.exists():
        raise ArtifactError(f"{path} does not exist; name a file that oddone export has written")
    try:
        return read_regular(path, MOST_BYTES)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from error


def _check_graph(path: Path, model: "ModelProto") -> None:
    """Raise an ArtifactError for what could read other files, run other code or never end."""
    if model.functions or model.training_info:
        raise ArtifactError(f"{path} has functions of its own, and is not used; make it anew")
    external = onnx_package().TensorProto.EXTERNAL
    for graph in graphs_of(model.graph):
        for node in graph.node:
            if node.domain not in {"", "ai.onnx"} or node.op_type in _ENDLESS:
                what = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
                raise ArtifactError(f"{path} calls {what!r}, and is not used; make it anew")
        if any(tensor.data_location == external for tensor in _tensors(graph)):
            raise ArtifactError(
                f"{path} has tensors in other files, and none are read for it; make it anew"
            )


def graphs_of(graph: "GraphProto") -> "Iterator[GraphProto]":
    """Yield a graph and those inside it, as the branches of a condition are."""
    yield graph
    for attribute in _attributes(graph):
        for inside in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from graphs_of(inside)


def _attributes(graph: "GraphProto") -> "Iterator[AttributeProto]":
    return (attribute for node in graph.node for attribute in node.attribute)


def _tensors(graph: "GraphProto") -> "Iterator[TensorProto]":
    yield from graph.initializer
    sparse = list(graph.sparse_initializer)
    for attribute in _attributes(graph):
        yield attribute.t
        yield from attribute.tensors
        sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
    for each in sparse:
        yield from (each.values, each.indices)


def _facts(path: Path, entries: dict[str, str]) -> OnnxFacts:
    hints = get_type_hints(OnnxFacts)
    try:
        values = {
            field.name: msgspec.json.decode(entries[field.name], type=hints[field.name])
            for field in fields(OnnxFacts)
        }
    except KeyError as error:
        raise _wrong(path, f"{error} is missing") from error
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise _wrong(path, str(error)) from error
    facts = OnnxFacts(**values)
    for wrong in _contradictions(facts):
        raise _wrong(path, wrong)
    return facts


def _contradictions(facts: OnnxFacts) -> Iterator[str]:
    if facts.kind != KIND:
        yield f"its kind is {facts.kind[:40]!r}"
    if facts.format != FORMAT:
        yield f"its format is {facts.format}, and this oddone reads {FORMAT}: install a newer one"
    if not facts.classes:
        yield "it has no classes"
    yield from class_name_faults(facts.classes)
    if not 1 <= facts.image_size <= LARGEST_IMAGE or not 1 <= facts.batch_size <= MOST_IMAGES:
        yield f"batches of {facts.batch_size} images of {facts.image_size} pixels are not read"
    if (facts.threshold is None) != (facts.thresholds is None):
        yield "it has a threshold of all classes or of each, and not both"
    elif facts.thresholds is not None and not _are_thresholds(facts):
        yield f"its thresholds are no {len(facts.classes)} numbers"


def _are_thresholds(facts: OnnxFacts) -> bool:
    thresholds: Iterable[float | None] = (facts.threshold, *(facts.thresholds or ()))
    finite = all(number is not None and math.isfinite(number) for number in thresholds)
    return finite and len(facts.thresholds or ()) == len(facts.classes)


def _wrong(path: Path, what: str) -> ArtifactError:
    return ArtifactError(f"{path} has metadata that oddone did not write: {what}; make it anew")
