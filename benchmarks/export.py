"""Exported files against the detectors that they were made from: speed, verdicts and AUROC.

    python benchmarks/export.py RUN [DIR]

RUN is a finished run on fashion:known with eight views, such as `oddone train fashion:known
--preset mcl --out RUN` makes. DIR holds photographs: train/ and test/ with one folder per class,
and unseen/ with images of other classes. With it, larger networks and images are measured too. Both
sides compute in one thread, on the same images.
"""

import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import numpy as np
import onnxruntime
import torch

from measure import compare, print_comparisons, seconds_of, write_measurements
from oddone.data import ImageSet, load
from oddone.detector import Detector, DetectorSettings
from oddone.device import keep_freed_memory
from oddone.encoders import TrainedNetwork, frozen_network
from oddone.export.comparison import AurocChange, OnnxScorer, VerdictChange
from oddone.export.files import int8_content, onnx_content
from oddone.export.onnx_detector import OnnxDetector
from oddone.presets import smoke
from oddone.scoring import score_images
from oddone.training.initialise import initial_network
from oddone.transforms import rotations_and_mirrors

ROUNDS = 7
PARITY = 1000
PEER = "detector(images), torch"


def main(run: str, folder: str | None = None) -> None:
    """Measure, print and record."""
    keep_freed_memory()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    speed: list[dict[str, Any]] = []
    quality = [measure_garments(run, speed)]
    if folder is not None:
        for size, images in ((32, 8), (128, 4)):
            measure_speed(untrained("resnet18", size), fashion("known", size, 32), images, speed)
        quality.append(measure_photographs(Path(folder), speed))
    print_comparisons(speed)
    for row in quality:
        print(json.dumps(row))
    write_measurements(
        "export",
        arguments="DIR" if folder is None else "DIR DIR",
        seed=0,
        packages=["numpy", "onnx", "onnxruntime"],
        rounds=ROUNDS,
        threads=1,
        speed=speed,
        quality=quality,
    )


def fashion(part: str, size: int, number: int, start: int = 0) -> ImageSet:
    """Return some test images of the embedded garments."""
    return some(load(f"fashion:{part}#test", size=size), number, start)


def some(images: ImageSet, number: int, start: int = 0) -> ImageSet:
    """Return so many images, the same ones each time, of all classes."""
    chosen = np.random.default_rng(0).permutation(len(images))[start : start + number]
    paths = [images.paths[index] for index in chosen]
    return replace(images, images=images.images[chosen], labels=images.labels[chosen], paths=paths)


def measure_garments(run: str, speed: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure a trained ResNet on garments of 32 pixels."""
    detector = Detector.load(run)
    held_out, unseen = fashion("known", 32, 500), fashion("unseen", 32, 400)
    opened = measure_speed(detector, held_out, 64, speed)
    tested = fashion("known", 32, PARITY, start=len(held_out))
    return measure_quality("garments", detector, opened, tested, unseen)


def measure_photographs(folder: Path, speed: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure a pretrained EfficientNet-Lite on photographs of 128 pixels."""
    train, test, unseen = (
        load(str(folder / name), size=128) for name in ("train", "test", "unseen")
    )
    trained = frozen_network("efficientnet-lite0", 128, train.classes, train.fingerprint)
    settings = DetectorSettings(views=rotations_and_mirrors, space="features", tied=True)
    detector = Detector.fit(trained, some(train, 150), settings)
    held_out = some(test, 60)
    detector = detector.calibrate(held_out)
    opened = measure_speed(detector, held_out, 4, speed)
    return measure_quality("photographs", detector, opened, some(test, 60, 60), some(unseen, 60))


def untrained(encoder: str, size: int) -> Detector:
    """Return a detector of eight views on a network that has learned nothing."""
    source = some(load("fashion:known", size=size), 48)
    settings = replace(smoke(), model=replace(smoke().model, encoder_name=encoder, head_dim=128))
    network = initial_network(source, settings).eval()
    trained = TrainedNetwork(
        network, settings.model, "task", source.classes, size, source.fingerprint
    )
    return Detector.fit(trained, source).calibrate(source)


def measure_speed(
    detector: Detector, held_out: ImageSet, images: int, speed: list[dict[str, Any]]
) -> dict[str, OnnxDetector]:
    """Add how fast the files of a detector are, and return them."""
    contents = {"float32": onnx_content(detector), "int8": int8_content(detector, held_out)}
    opened = {
        name: OnnxDetector.of(Path(name), content, threads=1) for name, content in contents.items()
    }
    planar = held_out.images[:images]
    pixels = np.ascontiguousarray(planar.transpose(0, 2, 3, 1))
    tasks: dict[str, Any] = {PEER: lambda: detector(planar)}
    for name, file in opened.items():
        tasks[f"onnxruntime, {name}"] = lambda file=file: file.run(pixels)
    seconds = seconds_of(tasks, ROUNDS)
    encoder = detector.embedder.trained.model.encoder_name
    for name, content in contents.items():
        row = {
            "encoder": encoder,
            "size": detector.image_size,
            "views": len(detector.embedder.views),
            "images": images,
            "precision": name,
            "megabytes": round(len(content) / 1e6, 1),
            **compare(seconds, ours=f"onnxruntime, {name}", peer=PEER),
            "profile": profile_of_file(content, pixels),
        }
        print(f"{encoder} {detector.image_size}: {row}", flush=True)
        speed.append(row)
    return opened


def profile_of_file(content: bytes, pixels: np.ndarray) -> dict[str, float]:
    """Return the share of the time that each operation of a file takes, the six largest."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.intra_op_num_threads = True, 1
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        for _ in range(3):
            session.run(None, {"images": pixels})
        events = json.loads(Path(session.end_profiling()).read_text())
    taken: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time"):
            taken[event["args"]["op_name"]] += event["dur"]
    total = taken.total()
    return {name: round(duration / total, 3) for name, duration in taken.most_common(6)}


def measure_quality(
    name: str,
    detector: Detector,
    opened: dict[str, OnnxDetector],
    tested: ImageSet,
    unseen: ImageSet,
) -> dict[str, Any]:
    """Return how verdicts and AUROC of the files differ from those of the detector."""
    before = [score_images(detector, images) for images in (tested, unseen)]
    row: dict[str, Any] = {"name": name, "unseen": len(unseen)}
    for precision, file in opened.items():
        after = [score_images(OnnxScorer(file), images) for images in (tested, unseen)]
        change = VerdictChange.of(before[0], after[0])
        areas = AurocChange.of(name, (before[0], after[0]), (before[1], after[1]))
        row[precision] = {
            **change._asdict(),
            "auroc_before": round(areas.before, 4),
            "auroc": round(areas.after, 4),
        }
    return row


if __name__ == "__main__":
    main(*sys.argv[1:])
