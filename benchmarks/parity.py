"""Exported graphs against the detectors that they were made from, on 1,000 images.

    python benchmarks/parity.py [ENCODER ...]

For every encoder (or those that are named), in both spaces, with and without a linear probe: by
every fusion of eight views, by the sum of all rules, and by one view (`--no-sei`), of which all
fusions are the same. The costly part is the encoder. So detectors on the same views of one encoder
share it, in torch and in the exported graph. A record says of every detector how far scores are
off, and how many labels and verdicts are others. The worst of the scores that are off by more than
the aim is compared with that by the network in float64: how far is torch's own score from it?
"""

import copy
import hashlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import onnxruntime
import torch
import transformers
from torch import Tensor, nn
from transformers.utils import logging

from measure import write_measurements
from oddone.data import ImageSet, load
from oddone.detector import Detector, DetectorSettings
from oddone.detector.rules import Rule, StandardisedRule
from oddone.detector.view_embedder import EmbeddedViews, Pixels, Space, ViewEmbedder
from oddone.encoders import Encoded, TrainedNetwork
from oddone.export.comparison import VerdictChange
from oddone.export.graph import DetectorGraph
from oddone.export.one_view import without_sei
from oddone.export.onnx_model import converted, traced
from oddone.fusion import FUSIONS, harmonic
from oddone.presets import smoke
from oddone.scoring import score_images
from oddone.training.initialise import initial_network
from oddone.verdicts import Verdicts

TESTED = 1000
UNSEEN = 400
"""How many of the tested images are of classes that were not fitted on."""
FITTED, HELD_OUT = 96, 200
AIM = 1e-4
"""How far a score may be off, relative to its value."""
IMAGES_AT_ONCE = 50
COMPARED = ("score", "label", "anomalous")
RULES: tuple[Rule, ...] = get_args(Rule)


class Parity(NamedTuple):
    """An encoder that is measured."""

    image_size: int
    as_program: bool = False
    """Whether the program of `torch.export`, a .pt2 file, is measured too: where that is quick."""


ENCODERS = {
    "resnet10-w16": Parity(32),
    "resnet10-w32": Parity(16),
    "poolnet": Parity(32, as_program=True),
    "poolnet-wide": Parity(32),
    "transformers": Parity(28, as_program=True),
    "efficientnet-lite0": Parity(32),
    "efficientnet-lite1": Parity(32),
    "efficientnet-lite2": Parity(32),
    "resnet18": Parity(16),
    "resnet34": Parity(16),
    "resnet50": Parity(16),
}
"""Images of large networks are small, so that one core does all in minutes. `transformers` is a
tiny DINOv2."""


def main(*names: str) -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in names or ENCODERS:
        start = time.process_time()
        for row in measure(name, ENCODERS[name], Images.of(ENCODERS[name].image_size)):
            print(json.dumps(row), flush=True)
            rows.append(row)
        print(f"{name}: {time.process_time() - start:.0f} seconds of CPU", flush=True)
    write_measurements(
        "parity",
        kind="quality",
        arguments=" ".join(names),
        seed=0,
        packages=["numpy", "onnx", "onnxruntime", "transformers"],
        images=TESTED,
        rows=rows,
    )


class Images(NamedTuple):
    """What is fitted on, calibrated with and compared on."""

    fitted: ImageSet
    held_out: ImageSet
    tested: ImageSet

    @staticmethod
    def of(size: int) -> "Images":
        """Return garments of so many pixels; of the tested ones, some are of other classes."""
        train, test, unseen = (
            load(f"fashion:{part}", size=size) for part in ("known", "known#test", "unseen#test")
        )
        known = some(test, TESTED - UNSEEN + HELD_OUT)
        held_out, tested = known.images[:HELD_OUT], known.images[HELD_OUT:]
        return Images(
            some(train, FITTED),
            unlabelled(known, held_out),
            unlabelled(known, np.concatenate([tested, unseen.images[:UNSEEN]])),
        )


def some(images: ImageSet, number: int) -> ImageSet:
    """Return so many images, the same ones each time, with as many of each class."""
    shuffled = np.random.default_rng(0).permutation(len(images))
    by_class = [shuffled[images.labels[shuffled] == label] for label in range(len(images.classes))]
    chosen = np.stack([each[: number // len(by_class)] for each in by_class], axis=1).flatten()
    paths = [images.paths[index] for index in chosen]
    return replace(images, images=images.images[chosen], labels=images.labels[chosen], paths=paths)


def unlabelled(like: ImageSet, images: np.ndarray) -> ImageSet:
    """Return images whose labels do not matter."""
    paths = [f"fashion[{number}]" for number in range(len(images))]
    return replace(like, images=images, labels=np.full(len(images), -1), paths=paths)


def measure(name: str, parity: Parity, images: Images) -> Iterator[dict[str, Any]]:
    """Yield how far every detector on an encoder is from its graph."""
    eight = detectors_of(network(name, images.fitted), images)
    one = [
        without_sei(detector, images.held_out) for detector in eight if detector.fuse is harmonic
    ]
    for detectors in (eight, one):
        wanted = [score_images(detector, images.tested) for detector in detectors]
        program = traced(SharedGraph(detectors), parity.image_size, fixed_size=True)
        files = {"onnx": by_onnxruntime(program, len(detectors), images.tested)}
        if parity.as_program:
            files["pt2"] = by_program(program, images.tested)
        for file, found in files.items():
            for detector, before, after in zip(detectors, wanted, found, strict=True):
                row = {
                    "encoder": name,
                    "size": parity.image_size,
                    "file": file,
                    **settings_of(detector),
                    **change_of(detector, before, after),
                }
                if row["largest_score"] > AIM and len(detector.rules) == 1:
                    row["against_float64"] = against_float64(detector, before, after, images.tested)
                yield row


def network(name: str, source: ImageSet) -> TrainedNetwork:
    """Return a network with the weights that its encoder comes with, or that the seed gives."""
    with tempfile.TemporaryDirectory() as folder:
        encoder_name = tiny_dinov2(Path(folder)) if name == "transformers" else name
        model = replace(smoke().model, encoder_name=encoder_name)
        settings = replace(smoke(), model=model, held_out=0.0)
        made = initial_network(source, settings).eval()
    size = source.images.shape[-1]
    return TrainedNetwork(made, model, "task", source.classes, size, source.fingerprint)


def tiny_dinov2(folder: Path) -> str:
    """Save a tiny model of transformers with random weights; return the name of the encoder."""
    config = transformers.AutoConfig.for_model(
        "dinov2",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
    )
    logging.disable_progress_bar()
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    preprocessor = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 28}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return f"transformers:{folder}"


@dataclass(frozen=True, eq=False)
class RememberingEmbedder(ViewEmbedder):
    """An embedder that shows a batch to the network once, whichever detector asks."""

    known: dict[tuple[str, bytes], EmbeddedViews] = field(default_factory=dict)

    def __call__(self, images: Pixels, views: Sequence[int] | None = None) -> EmbeddedViews:
        """Return the embeddings of all views."""
        key = (self.views.name, hashlib.sha256(images.numpy().tobytes()).digest())
        if key not in self.known:
            self.known[key] = super().__call__(images, views)
        return self.known[key]


class DoubleNetwork(nn.Module):
    """A network with weights and activations in float64."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).double().eval()

    def forward(self, images: Tensor) -> Encoded:
        """Return features and embeddings, in float64."""
        encoded: Encoded = self.network(images.double())
        return encoded


class DoubleEmbedder(ViewEmbedder):
    """An embedder whose network computes in float64; what it makes of views is in float32 again."""

    @cached_property
    def network(self) -> nn.Module:
        """The trained network, as it was trained."""
        return DoubleNetwork(self.trained.network)


def against_float64(
    detector: Detector, before: Verdicts, after: Verdicts, images: ImageSet
) -> dict[str, float]:
    """Return how far the score that differs most is off in torch and in the file, relatively."""
    worst = int(((before.scores - after.scores).abs() / before.scores.abs()).argmax())
    embedder = DoubleEmbedder(detector.embedder.trained, detector.embedder.views)
    pixels = torch.from_numpy(images.images[worst : worst + 1])
    exact = float(replace(detector, embedder=embedder)(pixels).scores)
    return {
        "torch": abs(float(before.scores[worst]) / exact - 1),
        "file": abs(float(after.scores[worst]) / exact - 1),
    }


def detectors_of(trained: TrainedNetwork, images: Images) -> list[Detector]:
    """Return the detectors on a network that are compared, with all of their views."""
    detectors: list[Detector] = []
    embedder = RememberingEmbedder(trained, DetectorSettings().views)
    spaces: tuple[Space, ...] = ("head", "features")
    for space in spaces:
        settings = DetectorSettings(space=space, tied=space == "features")
        fitted = replace(Detector.fit(trained, images.fitted, settings), embedder=embedder)
        fused = [replace(fitted, fuse=fuse) for fuse in FUSIONS.values()]
        summed = replace(fitted, rules=tuple(map(StandardisedRule, RULES)))
        detectors += [
            summed.standardise(images.held_out),
            *fused,
            *(replace(detector, classifier=None) for detector in fused),
        ]
    return [detector.calibrate(images.held_out) for detector in detectors]


class SharedGraph(nn.Module):
    """Several detectors on the same views of one encoder as one graph, which computes it once."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        super().__init__()
        self.graphs = nn.ModuleList(
            DetectorGraph(detector, fixed_size=True) for detector in detectors
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return score, label and whether it is anomalous, of one detector after the other."""
        graphs = [graph for graph in self.graphs if isinstance(graph, DetectorGraph)]
        embedded = graphs[0].embed(images)
        outputs, measured = [], {}
        for graph in graphs:
            # The first detector of a space is that by all rules, which measures all there is.
            if graph.space not in measured:
                measured[graph.space] = graph.measure(embedded)
            views = measured[graph.space]
            decided = graph.decide(views if graph.classifies else views._replace(logits=None))
            outputs += [decided[name] for name in COMPARED]
        return outputs


def by_onnxruntime(
    program: torch.export.ExportedProgram, detectors: int, images: ImageSet
) -> list[Verdicts]:
    """Return the verdicts of each detector by an ONNX graph."""
    names = [f"{number}.{name}" for number in range(detectors) for name in COMPARED]
    content = converted(program, names).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return to_verdicts(
        [torch.from_numpy(output) for output in session.run(names, {"images": pixels})]
        for pixels in batches(images)
    )


def by_program(program: torch.export.ExportedProgram, images: ImageSet) -> list[Verdicts]:
    """Return the verdicts of each detector by the program, as a .pt2 file holds it."""
    module = program.module()
    with torch.no_grad():
        return to_verdicts(module(torch.from_numpy(pixels)) for pixels in batches(images))


def batches(images: ImageSet) -> Iterator[np.ndarray]:
    """Yield images as graphs take them."""
    for start in range(0, len(images), IMAGES_AT_ONCE):
        some_images = images.images[start : start + IMAGES_AT_ONCE]
        yield np.ascontiguousarray(some_images.transpose(0, 2, 3, 1))


def to_verdicts(outputs: Iterable[Sequence[Tensor]]) -> list[Verdicts]:
    """Return the outputs for all batches as the verdicts of each detector."""
    joined = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
    return [
        Verdicts(*joined[start : start + len(COMPARED)])
        for start in range(0, len(joined), len(COMPARED))
    ]


def settings_of(detector: Detector) -> dict[str, Any]:
    """Return which detector it is, for the record."""
    return {
        "views": len(detector.embedder.views),
        "space": detector.space,
        "probe": detector.classifier is not None,
        "fusion": detector.fuse.__name__,
        "rules": [rule.rule for rule in detector.rules],
    }


def change_of(detector: Detector, before: Verdicts, after: Verdicts) -> dict[str, Any]:
    """Return how far scores are off, and the others: how near they were to being so anyway."""
    change = VerdictChange.of(before, after)
    apart = (before.scores.double() - after.scores.double()).abs()
    assert before.anomalous is not None  # noqa: S101  (it is calibrated)
    assert before.probabilities is not None  # noqa: S101
    assert detector.threshold is not None  # noqa: S101
    others = before.anomalous != after.anomalous
    margins = (before.scores.double() - detector.threshold)[others].abs()
    likeliest = before.probabilities[before.labels != after.labels].topk(2, dim=1).values
    return {
        **change._asdict(),
        "largest_apart": float(apart.max()),
        "deviation": float(before.scores.double().std()),
        "anomalous": float(before.anomalous.double().mean()),
        "labels_given": len(before.labels.unique()),
        "margins_of_other_verdicts": margins.tolist(),
        "margins_of_other_labels": (likeliest[:, 0] - likeliest[:, 1]).tolist(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
