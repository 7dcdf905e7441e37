"""From a detector to the model of an ONNX file, or to a program of `torch.export`."""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import torch
from torch import nn

import oddone
from oddone.detector import Calibration, Detector
from oddone.errors import SettingsError
from oddone.export.graph import DetectorGraph, calibration_tensors
from oddone.export.onnx_file import (
    DECIDED,
    FORMAT,
    INPUT,
    KIND,
    SCORED,
    OnnxFacts,
    onnx_package,
    onnxruntime_package,
)

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

OPSET = 20
AXES = ("batch", "height", "width")
WHITENED_AT_ONCE = 2**26
"""Numbers of a batch's views before every class that are in memory at a time."""


class OnnxModel(NamedTuple):
    """A model, and which of its nodes are the network: those that may be computed in int8."""

    model: "ModelProto"
    network_nodes: tuple[str, ...]


def facts_of(
    detector: Detector, *, fixed_size: bool, int8: bool = False, detector_sha256: str | None = None
) -> OnnxFacts:
    """Return what the file of a detector says of itself."""
    calibration, views = detector.calibration, len(detector.embedder.views)
    dim = detector.gaussians.mean.shape[1]
    whitened = views * len(detector.classes) * dim
    return OnnxFacts(
        kind=KIND,
        format=FORMAT,
        version=oddone.__version__,
        opset=OPSET,
        # A name need not be Unicode, as a folder's; JSON must, and says it as the tables do.
        classes=tuple(name.encode(errors="backslashreplace").decode() for name in detector.classes),
        image_size=detector.image_size,
        fixed_size=fixed_size,
        views=views,
        batch_size=max(1, min(detector.embedder.batch_size, WHITENED_AT_ONCE // whitened)),
        int8=int8,
        threshold=detector.threshold,
        thresholds=detector.thresholds,
        false_alarms=None if calibration is None else calibration.false_alarms,
        detector_sha256=detector_sha256,
    )


def to_program(detector: Detector, *, fixed_size: bool) -> torch.export.ExportedProgram:
    """Return the detector as `torch.export` traces it, for any number of images."""
    graph = DetectorGraph(detector.to("cpu"), fixed_size=fixed_size)
    try:
        return traced(graph, detector.image_size, fixed_size=fixed_size)
    except Exception as error:  # whatever the code of an encoder and the tracer raise
        raise _not_traceable(detector, error) from error


def traced(graph: nn.Module, image_size: int, *, fixed_size: bool) -> torch.export.ExportedProgram:
    """Return a module from images to outputs as a program, for any number of images."""
    graph.eval().requires_grad_(requires_grad=False)
    axes = AXES[:1] if fixed_size else AXES
    dims = {axis: torch.export.Dim(name) for axis, name in enumerate(axes)}
    # Neither square nor of the final size: what is equal by chance would be taken for a rule.
    shape = (3, image_size, image_size, 3)
    if not fixed_size:
        shape = (3, image_size + 3, image_size + 5, 3)
    with _quietly(), torch.no_grad():
        example = torch.zeros(shape, dtype=torch.uint8)
        return torch.export.export(graph, (example,), dynamic_shapes=(dims,))


def to_onnx(program: torch.export.ExportedProgram, detector: Detector) -> OnnxModel:
    """Return a traced detector as a model without metadata."""
    onnx_package()
    onnxruntime_package()  # which is needed next, and missing should be told now
    names = SCORED if detector.calibration is None else DECIDED
    try:
        model = converted(program, names)
    except SettingsError:
        raise
    except Exception as error:  # whatever the converter raises for an operation it does not know
        raise _not_traceable(detector, error) from error
    network_nodes = tuple(
        node.name
        for node in model.graph.node
        if any("'network" in entry.value for entry in node.metadata_props)
    )
    clean(model)
    return OnnxModel(model, network_nodes)


def converted(program: torch.export.ExportedProgram, names: Sequence[str]) -> "ModelProto":
    """Return a program as a model whose outputs have these names."""
    with _quietly(), torch.no_grad():
        exported = torch.onnx.export(
            program,
            input_names=[INPUT],
            output_names=list(names),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if exported is None:
        raise SettingsError("torch.onnx.export returned nothing; install a newer torch")
    return exported.model_proto


def set_calibration(model: "ModelProto", calibration: Calibration, n_classes: int) -> None:
    """Let a model decide by another calibration than the one it was made with."""
    onnx = onnx_package()
    tensors = {
        f"calibration.{name}": numbers.numpy()
        for name, numbers in calibration_tensors(calibration, n_classes).items()
    }
    for initializer in model.graph.initializer:
        if initializer.name in tensors:
            new = onnx.numpy_helper.from_array(tensors.pop(initializer.name), initializer.name)
            initializer.CopyFrom(new)
    if tensors:
        raise SettingsError(f"the graph has no {', '.join(tensors)}; install another torch")


def program_bytes(program: torch.export.ExportedProgram, facts: OnnxFacts) -> bytes:
    """Return the file of a traced detector; the facts are a JSON file in it."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # it names files of this machine
    file = io.BytesIO()
    with _quietly():
        extra = {"oddone.json": msgspec.json.encode(facts).decode()}
        torch.export.save(program, file, extra_files=extra)
    return file.getvalue()


def clean(model: "ModelProto") -> None:
    """Take out what tells of the machine, or of shapes inside, and name the axes."""
    (images,) = model.graph.input
    named = {
        dim.dim_param: name
        for dim, name in zip(images.type.tensor_type.shape.dim, AXES, strict=False)
        if dim.dim_param
    }
    for value in (*model.graph.input, *model.graph.output):
        value.ClearField("metadata_props")
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in named:
                dim.dim_param = named[dim.dim_param]
    _clean_graph(model.graph)
    model.producer_name, model.producer_version = "oddone", oddone.__version__
    for field in ("metadata_props", "doc_string", "functions"):
        model.ClearField(field)


def _clean_graph(graph: "GraphProto") -> None:
    for field in ("value_info", "metadata_props", "doc_string"):
        graph.ClearField(field)
    for initializer in graph.initializer:
        initializer.ClearField("metadata_props")
    for node in graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _clean_graph(attribute.g)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch from telling about itself: what it cannot do is raised."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _not_traceable(detector: Detector, error: Exception) -> SettingsError:
    name = detector.embedder.trained.model.encoder_name
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return SettingsError(
        f"the encoder {name} cannot be exported ({reason.strip()[:200]}); make one whose code does "
        f"the same for all images"
    )
