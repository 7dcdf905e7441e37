"""Files that are whole or not there: written under another name, flushed, then renamed."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from oddone.errors import ArtifactError

ENCODER_NAME = "encoder.safetensors"
DETECTOR_NAME = "detector.oddone"


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a restart, finds the old content or the new."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)  # on a full disk it would be in the way
        raise
    directory = os.open(path.parent, os.O_RDONLY) if os.name == "posix" else None
    if directory is not None:
        os.fsync(directory)
        os.close(directory)


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, indented for people."""
    write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())


def write_dated_json(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write a JSON file whose content has a "date", put that into its name, and return its path.

    In the order of their names, such files are in the order of their dates.
    """
    date = datetime.fromisoformat(content["date"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{date:%Y-%m-%d-%H%M%S}-{name}.json"
    write_json(path, content)
    return path


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    """Write a safetensors file; what it is about goes into its header as JSON."""
    # safetensors takes no two tensors that share memory, as weights that are tied together do.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    header = {name: json.dumps(value) for name, value in about.items()}
    write_atomic(path, _in_fixed_order(save(copies, header)))


def _in_fixed_order(content: bytes) -> bytes:
    """Return a safetensors file whose header is in one order: the same content, the same bytes.

    safetensors writes the entries of a header in an order that differs between processes. A file
    is the length of its header, the header as JSON padded to eight bytes, then all tensors, whose
    places are counted from the end of the header.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def file_or_in_run(path: Path, name: str) -> Path:
    """Return the path of a file, or of the file of that name where a run's directory is given."""
    if not path.is_dir():
        return path
    file = path / name
    if not file.is_file():
        raise ArtifactError(
            f"{path} holds no {name}; name the file, or the directory of a run that oddone train "
            f"has finished"
        )
    return file
