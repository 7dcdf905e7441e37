"""What is in the files of a folder, without what differs from run to run such as dates.

A file that has the name of a complete one must be complete: it is read and checked as oddone does.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pyarrow import parquet

from oddone import Detector
from oddone.bench import read_record
from oddone.encoders import load_network
from oddone.export.onnx_detector import OnnxDetector
from oddone.files import ENCODER_NAME, LOCK_NAME, is_leftover
from oddone.tensor_file import TensorFile, content_digest
from oddone.training.run_directory import INCOMPLETE
from oddone.training.settings_file import read_settings

Contents = dict[str, object]
"""By the name of a file, as far as that is the same in each run."""

HISTORY = "history.jsonl"
PROVENANCE = "provenance.json"
DIFFERING = ("date", "seconds", "processor_seconds", "minutes", "processor_minutes", "digest")
_read_before: dict[tuple[str, bytes], object] = {}
"""What is in a file, by its name and its digest: thousands of whole files would fill the memory."""
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}-\d{6}-")
_CACHE_ENTRY_IN_THE_MAKING = re.compile(r"[0-9a-f]{16}\.[0-9a-f]{16}")


def contents_of(folder: Path) -> Contents:
    """Return the content of each complete file; one that only looks complete is an error."""
    return {
        _DATED.sub("", str(path.relative_to(folder))): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _is_known_as_incomplete(path, folder)
    }


def _is_known_as_incomplete(path: Path, folder: Path) -> bool:
    """Return whether the name of a file, or of a folder it is in, says that it is no result."""
    inner = [path, *(parent for parent in path.parents if parent.is_relative_to(folder))]
    return any(
        is_leftover(each.name)
        or each.name == LOCK_NAME
        or each.suffix == ".damaged"
        or _CACHE_ENTRY_IN_THE_MAKING.fullmatch(each.name)
        or (each / INCOMPLETE).exists()
        for each in inner
    )


def _content(path: Path) -> object:
    """Return what is in a file, read in the way that its name asks for."""
    if path.suffix not in READERS:
        raise AssertionError(f"what is {path}?")
    key = path.name, hashlib.sha256(path.read_bytes()).digest()
    if key not in _read_before:
        _read_before[key] = READERS[path.suffix](path)
    return _read_before[key]


def _detector(path: Path) -> object:
    Detector.load(path)
    return _tensors(path)


def _network_or_state(path: Path) -> object:
    if path.name == ENCODER_NAME:
        load_network(path)
    return _tensors(path)


def _tensors(path: Path) -> object:
    """Return what is in a file of tensors, whose digest must be right."""
    file = TensorFile.read(path)
    file.check_digest()
    header = {name: json.loads(text) for name, text in file.header.items()}
    return _without_differing(header), content_digest(file.tensors, {})


def _without_differing(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {
            name: _without_differing(value)
            for name, value in content.items()
            if name not in DIFFERING
        }
    if isinstance(content, list):
        return [_without_differing(value) for value in content]
    return content


def _json(path: Path) -> object:
    if _DATED.match(path.name):
        read_record(path)
    return _without_differing(json.loads(path.read_text()))


def _json_lines(path: Path) -> object:
    lines = path.read_text().splitlines(keepends=True)
    if path.name == HISTORY and lines and not lines[-1].endswith("\n"):
        lines.pop()  # it is only ever added to, and whoever reads it knows that
    return [_without_differing(json.loads(line)) for line in lines]


def _page(path: Path) -> object:
    """Return a page, which must have its end."""
    page = path.read_text()
    assert page.rstrip().endswith("</html>"), f"{path} is not whole"
    return page


def _archive(path: Path) -> object:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


READERS: dict[str, Callable[[Path], object]] = {
    ".csv": Path.read_text,
    ".html": _page,
    ".json": _json,
    ".jsonl": _json_lines,
    ".npy": lambda path: np.load(path, allow_pickle=False).tobytes(),
    ".oddone": _detector,
    ".onnx": lambda path: OnnxDetector.load(path).facts,
    ".png": lambda path: np.asarray(Image.open(path)).tobytes(),
    ".pt2": _archive,
    ".parquet": lambda path: parquet.read_table(path).to_pylist(),
    ".safetensors": _network_or_state,
    ".toml": read_settings,
}
