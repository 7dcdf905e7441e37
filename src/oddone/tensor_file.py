"""Safetensors files: tensors and JSON about them. What is read, nobody vouches for."""

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_type_hints

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from oddone.errors import ArtifactError
from oddone.files import check_sha256, open_regular, write_atomic

Kind = TypeVar("Kind")

DIGEST = "digest"
"""The entry of a safetensors file's header that tells of damage."""
MOST_BYTES = 2**34
MOST_HEADER_BYTES = 2**23
"""The paths of 5000 images that a detector remembers may have 1600 letters each."""
MOST_COMMAS = 2**17
"""In a header. A tensor has four, and no comma between two things can be hidden from a count: so
there are few things to make of a header, however short each is."""
NOT_FINITE = "has numbers that are not finite"
"""What is wrong with a tensor from which no number could be computed."""
MOST_LETTERS = 1000
"""Of the reason why a file is refused."""
_USES_OF_EXPORTS = {
    ".onnx": "score images by it with oddone score",
    ".pt2": "load it with torch.export.load",
}
# Where each tensor ends, counted from the end of the header.
_ENDS = re.compile(rb'"data_offsets":\s*\[\s*\d+\s*,\s*(\d{1,19})\s*\]')


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    """Write a safetensors file; what it is about goes into its header as JSON, with a digest."""
    # safetensors takes no two tensors that share memory, as weights that are tied together do.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    header = {name: json.dumps(value) for name, value in about.items()}
    header[DIGEST] = json.dumps(content_digest(copies, header))
    content = _in_fixed_order(save(copies, header))
    reason = _too_much(content[8 : _header_end(content)])
    if reason is not None:
        raise ArtifactError(
            f"{path} cannot be written, as nobody could read it: {reason}; shorten the names of "
            f"images and classes"
        )
    write_atomic(path, content)


def content_digest(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """Return a hash that changes with any tensor and any entry of the header.

    It tells of damage, not of forgery: who can write a file can write its digest.
    """
    names = sorted(tensors)
    shapes = [(name, str(tensors[name].dtype), list(tensors[name].shape)) for name in names]
    digest = hashlib.sha256(json.dumps([sorted(header.items()), shapes]).encode())
    for name in names:
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _in_fixed_order(content: bytes) -> bytes:
    """Return a safetensors file whose header is in one order: the same content, the same bytes.

    safetensors writes the entries of a header in an order that differs between processes. A file
    is the length of its header, the header as JSON padded to eight bytes, then all tensors, whose
    places are counted from the end of the header.
    """
    end = _header_end(content)
    header = json.loads(content[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def _header_end(content: bytes) -> int:
    """Return where the header of a safetensors file ends, and its tensors begin."""
    return 8 + int.from_bytes(content[:8], "little")


def _too_much(header: bytes) -> str | None:
    """Return why a header would take far more memory and time than it is long; None if not."""
    if len(header) > MOST_HEADER_BYTES:
        return f"its header has {len(header):,} bytes, more than {MOST_HEADER_BYTES:,}"
    commas = header.count(b",")
    if commas > MOST_COMMAS:
        return f"its header has {commas:,} commas, more than {MOST_COMMAS:,}"
    return None


@dataclass(frozen=True)
class _About:
    """What the header of every file of ours says."""

    kind: str | None = None
    format: int | None = None


@dataclass(frozen=True, eq=False)
class TensorFile:
    """What a file holds. What is asked of it is there and of the right kind, or an error."""

    path: Path
    header: Mapping[str, str]
    """JSON by name."""
    tensors: Mapping[str, Tensor]

    @staticmethod
    def read(path: Path, *, sha256: str | None = None) -> "TensorFile":
        """Return what a file holds, copied, so that the file may be replaced meanwhile.

        With `sha256`, a file that has another SHA-256 is refused before anything of it is read.
        """
        content = _content(path)
        if sha256 is not None:
            check_sha256(path, content, sha256)
        end = _header_end(content)
        try:
            tensors = load(content)
        # A dtype that safetensors knows and torch does not is a KeyError, an impossible shape a
        # TypeError.
        except (SafetensorError, KeyError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise ArtifactError(f"{path} is damaged ({reason}); copy it again") from error
        header = json.loads(content[8:end]).get("__metadata__") or {}
        return TensorFile(path, header, tensors)

    def header_as(self, kind: type[Kind]) -> Kind:
        """Return the header as a dataclass, whose fields are the entries that a file must have.

        An entry that is missing has the default of its field; further entries are left alone.
        """
        entries = {
            name: self._entry_of_type(name, hint)
            for name, hint in get_type_hints(kind, include_extras=True).items()
            if name in self.header
        }
        try:
            return msgspec.convert(entries, kind)
        except msgspec.ValidationError as error:
            raise self.inconsistent(f"its header is wrong: {error}") from error

    def kind_and_format(self) -> tuple[str | None, int | None]:
        """Return what kind of file it says it is, and in which format; None where it does not."""
        if "kind" not in self.header:
            return None, None  # somebody else's file, whose header need not be JSON
        about = self.header_as(_About)
        return about.kind, about.format

    def check_digest(self) -> None:
        """Raise an ArtifactError unless the contents are those that were written."""
        others = {name: entry for name, entry in self.header.items() if name != DIGEST}
        if self.header.get(DIGEST) != json.dumps(content_digest(self.tensors, others)):
            raise ArtifactError(
                f"{self.path} was altered after it was written: its contents do not match its "
                f"digest; copy it again"
            )

    def _entry_of_type(self, name: str, hint: Any) -> Any:
        """Return an entry of the header, which can be made a value of this type."""
        try:
            # msgspec's own parser refuses what Python writes for a file name that is not UTF-8.
            entry = json.loads(self.header[name])
            msgspec.convert(entry, hint)
        except msgspec.ValidationError as error:
            raise self.inconsistent(f"{name} is {reprlib.repr(entry)}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise self.inconsistent(f"{name} is no JSON") from error
        return entry

    def tensor(self, name: str, dtype: torch.dtype, *shape: int | None) -> Tensor:
        """Return a tensor of this dtype and shape, in which None stands for any size."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.inconsistent(f"there is no {name}")
        sizes = list(tensor.shape)
        fits = len(sizes) == len(shape) and all(
            wanted in {None, size} for wanted, size in zip(shape, sizes, strict=True)
        )
        if tensor.dtype != dtype or not fits:
            wish = ["any" if size is None else size for size in shape]
            raise self.inconsistent(
                f"{name} is {tensor.dtype} {sizes}, not {dtype} [{', '.join(map(str, wish))}]"
            )
        if not tensor.isfinite().all():
            raise self.inconsistent(f"{name} {NOT_FINITE}")
        return tensor

    def below(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with this, without it."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }

    def inconsistent(self, reason: str) -> ArtifactError:
        """Return the error that says what does not fit together, in a line of bounded length."""
        printable = "".join(letter if letter.isprintable() else "?" for letter in reason)
        if len(printable) > MOST_LETTERS:  # it may repeat what the file says
            printable = f"{printable[:MOST_LETTERS]} ..."
        return ArtifactError(f"{self.path} contradicts itself: {printable}; make it anew")


def _content(path: Path) -> bytes:
    """Return all bytes of a file, once its length is known to be what its header says."""
    if path.is_dir():
        raise ArtifactError(f"{path} is a directory; name the file in it")
    if not path.exists():
        raise ArtifactError(f"{path} does not exist")
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(path, file, size)
            file.seek(0)
            return file.read(size)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from error


def _check_size(path: Path, file: BinaryIO, size: int) -> None:
    """Raise an ArtifactError unless the file's length is that of its header and its tensors."""
    if size > MOST_BYTES:
        raise ArtifactError(f"{path} has {size:,} bytes, more than {MOST_BYTES:,}: it is not ours")
    start = file.read(9)
    if start[8:] not in {b"", b"{"}:
        use = _USES_OF_EXPORTS.get(path.suffix.lower())
        if use is not None:
            raise ArtifactError(
                f"{path} looks like a file of oddone export, from which no detector can be loaded; "
                f"name the run or the .oddone file that it was made from, or {use}"
            )
        raise ArtifactError(f"{path} is no safetensors file, so oddone did not write it")
    header_size = int.from_bytes(start[:8], "little")
    if min(header_size, size) > MOST_HEADER_BYTES:
        raise ArtifactError(
            f"{path} is damaged: its header would have {header_size:,} bytes, more than "
            f"{MOST_HEADER_BYTES:,}; copy it again"
        )
    end = 8 + header_size  # of the header, after its own length
    header = start[8:] + file.read(max(0, min(header_size, size) - 1))
    reason = _too_much(header)
    if reason is not None:
        raise ArtifactError(f"{path} is not ours: {reason}")
    whole = end + max(map(int, _ENDS.findall(header)), default=0)
    if size < whole:
        raise ArtifactError(
            f"{path} is cut short: it has {size:,} bytes of {whole:,}; copy it again"
        )
    if size > whole:
        raise ArtifactError(
            f"{path} is damaged: it has {size:,} bytes, and its header tells of {whole:,}; copy it "
            f"again"
        )
