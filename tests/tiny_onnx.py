"""The file of a detector so simple that it takes no time to make: the score is the brightness."""

from onnx import TensorProto, helper

from oddone import __version__
from oddone.export.onnx_file import DECIDED, FORMAT, INPUT, KIND, OnnxFacts, set_facts, to_bytes

FACTS = OnnxFacts(
    kind=KIND,
    format=FORMAT,
    version=__version__,
    opset=20,
    classes=("dark", "bright"),
    image_size=16,
    fixed_size=False,
    views=1,
    batch_size=8,
    int8=False,
    threshold=128.0,
    thresholds=(128.0, 128.0),
    false_alarms=0.05,
    detector_sha256=None,
)


def tiny_onnx() -> bytes:
    """Return the content of that file; bright images are anomalous."""
    nodes = [
        helper.make_node("Cast", [INPUT], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["score"], keepdims=0),
        helper.make_node("Greater", ["score", "threshold"], ["anomalous"]),
        helper.make_node("Cast", ["anomalous"], ["label"], to=TensorProto.INT64),
        helper.make_node("Cast", ["anomalous"], ["p_value"], to=TensorProto.DOUBLE),
        helper.make_node("OneHot", ["label", "depth", "values"], ["probabilities"]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [3], [1, 2, 3]),
        helper.make_tensor("threshold", TensorProto.FLOAT, [], [128.0]),
        helper.make_tensor("depth", TensorProto.INT64, [], [2]),
        helper.make_tensor("values", TensorProto.FLOAT, [2], [0.0, 1.0]),
    ]
    kinds = (
        TensorProto.FLOAT,
        TensorProto.INT64,
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.BOOL,
    )
    images = helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", "h", "w", 3])
    outputs = [
        helper.make_tensor_value_info(
            name, kind, ["batch", 2] if name == "probabilities" else ["batch"]
        )
        for name, kind in zip(DECIDED, kinds, strict=True)
    ]
    graph = helper.make_graph(nodes, "tiny", [images], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    set_facts(model, FACTS)
    return to_bytes(model)
