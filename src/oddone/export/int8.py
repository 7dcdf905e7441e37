"""The network in whole numbers of eight bits: smaller, and faster where processors multiply them.

Only the network is quantised: weights for each channel, inputs by the range that they have on some
images. Distances, fusion and calibration stay as
they are, as there a rounding would move every score.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from oddone.data import ImageSet
from oddone.export.onnx_file import INPUT, graphs_of, onnx_package, onnxruntime_package
from oddone.export.onnx_model import OnnxModel, clean

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

QUANTISED = ["Conv", "Gemm", "MatMul", "Add", "Relu", "Clip", "MaxPool"]
"""Those between products too, so that their numbers need not become floats and bytes again."""
MOST_IMAGES = 256
"""More images hardly move the ranges."""
IMAGES_AT_ONCE = 16


def quantise(exported: OnnxModel, images: ImageSet) -> "ModelProto":
    """Return a model whose network computes in int8, by the ranges that it has on these images."""
    onnx = onnx_package()
    onnxruntime_package()
    from onnxruntime import quantization  # noqa: PLC0415  (an extra)

    inside = set(exported.network_nodes)
    outside = [node.name for node in exported.model.graph.node if node.name not in inside]
    with TemporaryDirectory() as folder, _quietly():
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save_model(exported.model, before)
        quantization.quantize_static(
            before,
            after,
            _Images(images),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=QUANTISED,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=outside,
        )
        quantised: ModelProto = onnx.load_model(after)
    clean(quantised)
    for graph in graphs_of(quantised.graph):
        _sort_nodes(graph)
    return quantised


def _sort_nodes(graph: "GraphProto") -> None:
    """Put every node after those that it needs; the quantiser forgets what branches need."""
    nodes = list(graph.node)
    makers = {name: number for number, node in enumerate(nodes) for name in node.output}
    needed = {
        number: {makers[name] for name in _names_needed(node) if name in makers}
        for number, node in enumerate(nodes)
    }
    ordered = [nodes[number] for number in TopologicalSorter(needed).static_order()]
    del graph.node[:]
    graph.node.extend(ordered)


def _names_needed(node: "NodeProto") -> "Iterator[str]":
    """Yield what a node takes, and what the nodes of its branches do."""
    yield from node.input
    for attribute in node.attribute:
        for inside in attribute.g.node:
            yield from _names_needed(inside)


class _Images:
    """Some images, evenly chosen, as the quantiser asks for them."""

    def __init__(self, images: ImageSet) -> None:
        count = min(len(images), MOST_IMAGES)
        chosen = np.linspace(0, len(images) - 1, count).astype(int)
        self._batches = (
            {INPUT: np.ascontiguousarray(images.images[some].transpose(0, 2, 3, 1))}
            for some in np.array_split(chosen, -(-count // IMAGES_AT_ONCE))
        )

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch by the name of the input, or None after the last."""
        return next(self._batches, None)

    def __iter__(self) -> "Iterator[dict[str, Any]]":
        return self._batches


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the quantiser from advice about what it was told to do."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
