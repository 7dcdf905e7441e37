"""Files that oddone reads, made by their own writers, then damaged or forged."""

import gzip
import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.io
import torch
from mutations import mutated
from PIL import Image
from safetensors import safe_open
from torch import Tensor

from oddone.bench.record import write_record
from oddone.encoders import Network, TrainedNetwork, save_network
from oddone.files import write_json
from oddone.tensor_file import DIGEST, write_tensors
from oddone.training.checkpoint import TrainProgress, save_checkpoint
from oddone.training.initialise import initial_network
from oddone.training.optim import build_optimiser
from oddone.training.run_directory import run_provenance
from oddone.training.settings_file import as_toml
from packs import tar_of, write_parquet
from records import made_up_record
from runs import tiny_settings, tiny_source
from small_detector import fitted
from tiny_onnx import tiny_onnx

CHECKED = (
    "detector",
    "encoder",
    "onnx",
    "checkpoint",
    "targz",
    "packedmat",
    "npz",
    "packednpz",
    "idxgz",
)
"""What has a checksum: damaged, it is refused, or is what it was."""
FORGED = ("detector", "encoder", "checkpoint")
"""What has a digest, with which whoever writes the file can sign anything."""
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
LABELS = np.array([1, 0, 1, 3], dtype=np.uint8)


def write_artifacts(folder: Path) -> dict[str, Path]:
    """Write a small file of each kind, and return where they are."""
    paths = {kind: folder / kind / name for kind, name in FILE_NAMES.items()}
    for path in paths.values():
        path.parent.mkdir(parents=True)
    _write_networks(paths)
    settings = tiny_settings()
    paths["settings"].write_bytes(as_toml(settings))
    described = {"images": 48, "fingerprint": "f", "source": "folder:photos", "size": None}
    write_json(paths["provenance"], {**run_provenance(settings), "data": described})
    lines = [{"step": step, "loss": 1 / step, "seconds": 0.5} for step in range(1, 6)]
    paths["history"].write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_record(paths["record"].parent, made_up_record()).rename(paths["record"])
    paths["onnx"].write_bytes(tiny_onnx())
    _write_data(paths)
    return paths


def network_and_optimiser() -> tuple[Network, torch.optim.Optimizer]:
    """Return the network of the checkpoint, untrained, and an optimiser for it."""
    source, settings = _small_run()
    network = initial_network(source, settings)
    return network, build_optimiser(network, settings.optimiser)


def damaged_files(paths: dict[str, Path], number: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield so many files, changed at random, and the kind of each."""
    random = Random(seed)  # noqa: S311  (nothing is secret)
    contents = {kind: path.read_bytes() for kind, path in paths.items()}
    others = list(contents.values())
    for count in range(number):
        kind = list(contents)[count % len(contents)]
        yield kind, mutated(contents[kind], others, random)


def forge(path: Path, target: Path, random: Random) -> str:
    """Write a file with one tensor or one entry of its header changed, and a digest that is right.

    Return what was changed, and into what.
    """
    tensors, about = _contents(path)
    some = (tensor for tensor in sorted(tensors) if random.random() < 0.3)
    name = random.choice([*sorted(about), *some])  # a header is in another order each time
    if name in tensors:
        how = random.choice(list(_FORGED_TENSORS))
        forge_tensor(path, target, name, how)
    else:
        how = random.choice(list(_FORGED_ENTRIES))
        _change_entry(about, name, _FORGED_ENTRIES[how], random)
        write_tensors(target, tensors, about)
    return f"{name}: {how}"


def forge_tensor(path: Path, target: Path, name: str, how: str) -> None:
    """Write a file with one tensor changed, and a digest that is right."""
    tensors, about = _contents(path)
    changed = _FORGED_TENSORS[how](tensors.pop(name))
    if changed is not None:
        tensors[name] = changed
    write_tensors(target, tensors, about)


def _contents(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = dict(file.metadata())
    return tensors, {name: json.loads(header[name]) for name in header if name != DIGEST}


def _change_entry(about: dict[str, Any], name: str, forged: Any, random: Random) -> None:
    """Change an entry of a header, or what is inside it."""
    inside = about[name]
    while isinstance(inside, dict) and inside and random.random() < 0.7:
        about, name = inside, random.choice(list(inside))
        inside = about[name]
    about[name] = forged


_FORGED_TENSORS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "no number": lambda tensor: _filled(tensor, float("nan")),
    "infinite": lambda tensor: _filled(tensor, float("inf")),
    "very large": lambda tensor: _filled(tensor, 1e38),
    "zero": torch.zeros_like,
    "negative": lambda tensor: _filled(tensor, -1),
    "missing": lambda _: None,
    "nothing": lambda tensor: tensor.flatten()[:0],
    "flat": lambda tensor: tensor.flatten(),
    "one more": lambda tensor: torch.cat([tensor.flatten(), tensor.flatten()[:1]]),
    "deeper": lambda tensor: tensor[None],
    "of doubles": lambda tensor: tensor.double(),
    "of bytes": lambda tensor: torch.zeros(tensor.shape, dtype=torch.uint8),
}
_FORGED_ENTRIES: dict[str, Any] = {
    "null": None,
    "no number": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "zero": 0,
    "huge": 10**30,
    "large": 2**31 - 1,
    "text": "junk\n\x1b[31m\0" * 3,
    "long text": "x" * 100_000,
    "path": "../../../../etc/passwd",
    "list": [1, "a", None] * 1_000,
    "nested": json.loads("[" * 400 + "]" * 400),
    "true": True,
    "empty": {},
    "like an object": {"__class__": "os.system", "args": ["true"]},
}


def _filled(tensor: Tensor, number: float) -> Tensor:
    filled = tensor.clone()
    place = (0,) * tensor.ndim if tensor.numel() else ()
    if tensor.numel() and (tensor.is_floating_point() or abs(number) < 2):
        filled[place] = number
    return filled


FILE_NAMES = {
    "detector": "detector.oddone",
    "encoder": "encoder.safetensors",
    "onnx": "detector.onnx",
    "checkpoint": "000000006.safetensors",
    "settings": "settings.toml",
    "provenance": "provenance.json",
    "history": "history.jsonl",
    "record": "record.json",
    "cifar": "test_batch",
    "cifarmeta": "batches.meta",
    "tar": "cifar.tar",
    "targz": "cifar.tar.gz",
    "mat": "test_32x32.mat",
    "packedmat": "test_32x32.mat",
    "npz": "a.npz",
    "packednpz": "a.npz",
    "npy": "a.npy",
    "idx": "train-images-idx3-ubyte",
    "idxgz": "train-images-idx3-ubyte.gz",
    "imglist": "list.txt",
    "tarshard": "shard.tar",
    "tarshardgz": "shard.tar.gz",
    "parquet": "pictures.parquet",
}


@cache
def _small_run() -> Any:
    return tiny_source(), tiny_settings()


def _write_networks(paths: dict[str, Path]) -> None:
    fitted().save(paths["detector"])
    source, settings = _small_run()
    network, optimiser = network_and_optimiser()
    trained = TrainedNetwork(
        network.eval(), settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )
    save_network(paths["encoder"], trained)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    progress = TrainProgress(step=6, seconds=1.5)
    save_checkpoint(paths["checkpoint"].parent, network, optimiser, progress)


def _write_data(paths: dict[str, Path]) -> None:
    flat = PIXELS.transpose(0, 3, 1, 2).reshape(len(PIXELS), -1)
    batch = pickle.dumps({b"data": flat, b"labels": LABELS.tolist()}, 2)
    meta = pickle.dumps({"label_names": [f"thing {number}" for number in range(10)]}, 4)
    paths["cifar"].write_bytes(batch)
    paths["cifarmeta"].write_bytes(meta)
    files = {"cifar-10-batches-py/batches.meta": meta, "cifar-10-batches-py/test_batch": batch}
    for kind, mode in (("tar", "w"), ("targz", "w:gz")):
        with tarfile.open(paths[kind], mode) as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    matlab = {"X": PIXELS.transpose(1, 2, 3, 0), "y": LABELS[:, None]}
    scipy.io.savemat(paths["mat"], matlab)
    scipy.io.savemat(paths["packedmat"], matlab, do_compression=True)
    arrays = {"images": PIXELS, "labels": LABELS, "classes": np.array(["a", "b", "c", "d"])}
    np.savez(paths["npz"], **arrays)
    np.savez_compressed(paths["packednpz"], **arrays)
    np.save(paths["npy"], PIXELS)
    idx = b"\0\0\x08\x03" + struct.pack(">III", *PIXELS.shape[:3]) + PIXELS[..., 0].tobytes()
    paths["idx"].write_bytes(idx)
    paths["idxgz"].write_bytes(gzip.compress(idx))
    pictures = paths["imglist"].parent.parent / "pictures"
    pictures.mkdir()
    for number, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(pictures / f"{number}.png")
    lines = [f"{pictures}/{number}.png {label}\n" for number, label in enumerate(LABELS)]
    paths["imglist"].write_text("".join(lines))
    contents = [(pictures / f"{number}.png").read_bytes() for number in range(len(PIXELS))]
    shard = {f"{number}.png": content for number, content in enumerate(contents)}
    shard |= {f"{number}.cls": str(label).encode() for number, label in enumerate(LABELS)}
    paths["tarshard"].write_bytes(tar_of(shard))
    paths["tarshardgz"].write_bytes(tar_of(shard, "w:gz"))
    write_parquet(paths["parquet"], {"image": contents, "label": LABELS.tolist()})
