"""What a safetensors file says of itself, as a dataclass, or an error that says what is wrong."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import torch

from oddone.bench import read_record
from oddone.errors import ArtifactError, SettingsError
from oddone.tensor_file import TensorFile, write_tensors
from oddone.training.settings_file import read_settings


@dataclass(frozen=True)
class PartHeader:
    """A part of a header that checks itself."""

    rate: float

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise SettingsError(f"rate={self.rate}: choose 0 or more")


@dataclass(frozen=True)
class ExampleHeader:
    """A header with an entry of every kind."""

    kind: str
    format: int
    classes: tuple[str, ...]
    image_size: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    space: Literal["head", "features"]
    settings: dict[str, Any]
    part: PartHeader
    false_alarms: float | None = None
    paths: tuple[str, ...] = field(default_factory=tuple)


ENTRIES: dict[str, Any] = {
    "kind": "example",
    "format": 1,
    "classes": ["boot", "shirt"],
    "image_size": 32,
    "space": "head",
    "settings": {"seed": 0, "batch": {"images": 64}},
    "part": {"rate": 1},
}


def file_with(header: dict[str, str]) -> TensorFile:
    return TensorFile(Path("some.file"), header, {})


def example(**changed: Any) -> TensorFile:
    return file_with({name: json.dumps(entry) for name, entry in {**ENTRIES, **changed}.items()})


def test_a_header_becomes_a_dataclass_with_the_defaults_of_what_is_missing() -> None:
    assert example().header_as(ExampleHeader) == ExampleHeader(
        kind="example",
        format=1,
        classes=("boot", "shirt"),
        image_size=32,
        space="head",
        settings={"seed": 0, "batch": {"images": 64}},
        part=PartHeader(1.0),
        false_alarms=None,
        paths=(),
    )


def test_a_header_survives_its_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {"weight": torch.ones(2)}, ENTRIES)
    file = TensorFile.read(tmp_path / "a.safetensors")
    assert file.header_as(ExampleHeader) == example().header_as(ExampleHeader)


def test_further_entries_of_a_header_are_left_alone() -> None:
    with_digest = example(digest="abc", format_of_somebody_else={"a": 1})
    assert with_digest.header_as(ExampleHeader) == example().header_as(ExampleHeader)


def test_optional_entries_are_read_where_they_are_there() -> None:
    header = example(false_alarms=0.05, paths=["a.png"]).header_as(ExampleHeader)
    assert (header.false_alarms, header.paths) == (0.05, ("a.png",))


def test_a_file_name_that_is_not_utf8_comes_back() -> None:
    name = b"caf\xe9.png".decode(errors="surrogateescape")
    assert example(paths=[name]).header_as(ExampleHeader).paths == (name,)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"format": "1"}, "format is '1': Expected `int`, got `str`"),
        ({"format": 1.0}, "format is 1.0: Expected `int`, got `float`"),
        ({"format": True}, "format is True: Expected `int`, got `bool`"),
        ({"format": None}, "format is None: Expected `int`, got `null`"),
        ({"image_size": 0}, "image_size is 0: Expected `int` >= 1"),
        ({"image_size": 5000}, "image_size is 5000: Expected `int` <= 4096"),
        ({"classes": "boot"}, "classes is 'boot': Expected `array`, got `str`"),
        ({"classes": ["a", 1]}, "classes is ['a', 1]: Expected `str`, got `int` - at `$[1]`"),
        ({"space": "tail"}, "space is 'tail': Invalid enum value 'tail'"),
        ({"space": "\x1b[2J"}, r"space is '\x1b[2J': Invalid enum value '\x1b[2J'"),
        ({"settings": []}, "settings is []: Expected `object`, got `array`"),
        ({"format": "\x1b[2J"}, r"format is '\x1b[2J': Expected `int`, got `str`"),
        ({"part": {}}, "part is {}: Object missing required field `rate`"),
        ({"part": {"rate": -1}}, "part is {'rate': -1}: rate=-1.0: choose 0 or more"),
        ({"false_alarms": "few"}, "false_alarms is 'few': Expected `float | null`, got `str`"),
    ],
)
def test_a_wrong_entry_is_named_with_what_it_is_and_what_it_should_be(
    changed: dict[str, Any], reason: str
) -> None:
    message = re.escape(f"some.file contradicts itself: {reason}; make it anew")
    with pytest.raises(ArtifactError, match=f"^{message}$"):
        example(**changed).header_as(ExampleHeader)


def test_a_long_entry_is_told_in_short() -> None:
    with pytest.raises(ArtifactError, match=r"format is \[0, 1, 2, 3, 4, 5, \.\.\.\]: Expected"):
        example(format=list(range(1000))).header_as(ExampleHeader)


def test_a_header_that_contradicts_itself_says_so() -> None:
    with pytest.raises(ArtifactError, match="its header is wrong: rate=-2.0: choose 0 or more"):
        file_with({"rate": "-2"}).header_as(PartHeader)


@pytest.mark.parametrize("missing", ["kind", "classes", "part"])
def test_an_entry_that_a_header_must_have_is_missed_by_name(missing: str) -> None:
    header = dict(example().header)
    del header[missing]
    with pytest.raises(ArtifactError, match=f"missing required field `{missing}`; make it anew"):
        file_with(header).header_as(ExampleHeader)


@pytest.mark.parametrize("text", ["", "{", "boot", "[" * 100_000])
def test_an_entry_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError, match="settings is no JSON"):
        file_with({**example().header, "settings": text}).header_as(ExampleHeader)


def test_an_entry_of_any_depth_is_read_or_refused() -> None:
    for depth in range(0, 2000, 7):
        header = {**example().header, "settings": "[" * depth + "]" * depth}
        with pytest.raises(ArtifactError, match="settings is"):
            file_with(header).header_as(ExampleHeader)


@pytest.fixture
def _soon() -> Iterator[None]:
    """Fail a test that does not come to an end."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(5)
    yield
    signal.alarm(0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero")
    if kind == "fifo":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    with pytest.raises(ArtifactError, match=f"{path} cannot be read: it is no regular file"):
        TensorFile.read(path)
    with pytest.raises(ArtifactError, match=f"{path} cannot be read: it is no regular file"):
        read_record(path)
    with pytest.raises(SettingsError, match="cannot be read .*: it is no regular file"):
        read_settings(path)


def test_a_file_larger_than_any_of_ours_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.truncate(2**35)  # of which the disk holds nothing
    with pytest.raises(ArtifactError, match="has 34,359,738,368 bytes, more than 17,179,869,184"):
        TensorFile.read(path)


def test_the_header_is_checked_before_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.truncate(2**33)
        file.write((2**40).to_bytes(8, "little") + b"{")
    with pytest.raises(ArtifactError, match="its header would have 1,099,511,627,776 bytes"):
        TensorFile.read(path)
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    with path.open("rb+") as file:
        file.write(len(header).to_bytes(8, "little") + header)
    with pytest.raises(
        ArtifactError, match="is damaged: it has 8,589,934,592 bytes, and its header"
    ):
        TensorFile.read(path)


def file_with_header(path: Path, header: bytes) -> Path:
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    return path


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (
            b'{"__metadata__":{"a":"' + b"x" * 2**23 + b'"}}',
            "damaged: its header would have 8,388,633 bytes, more than 8,388,608; copy it again",
        ),
        (
            b'{"__metadata__":{' + b",".join(b'"%x":""' % n for n in range(140_000)) + b"}}",
            "not ours: its header has 139,999 commas, more than 131,072",
        ),
        (  # where "data_offsets" is written so that a search for it finds nothing
            b"{"
            + b",".join(
                b'"%x":{"dtype":"U8","shape":[0],"data_\\u006fffsets":[0,0]}' % n
                for n in range(40_000)
            )
            + b"}",
            "not ours: its header has 159,999 commas, more than 131,072",
        ),
    ],
    ids=["long", "entries", "tensors"],
)
def test_a_header_that_would_take_gigabytes_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bytes, reason: str
) -> None:
    path = file_with_header(tmp_path / "a.safetensors", header)
    monkeypatch.setattr("oddone.tensor_file.load", lambda _: pytest.fail("it is parsed"))
    with pytest.raises(ArtifactError, match=f"^{re.escape(f'{path} is {reason}')}$"):
        TensorFile.read(path)


def test_thousands_of_classes_tensors_and_long_paths_are_read(tmp_path: Path) -> None:
    tensors = {f"exp_avg.encoder.layer.{n}.weight": torch.zeros(1, 1, 1, 1) for n in range(5000)}
    about = {
        "classes": [f"tench number {number}, Tinca tinca" for number in range(20_000)],
        "paths": [f"{'folder/' * 30}{number}.jpg" for number in range(5000)],
    }
    path = tmp_path / "a.safetensors"
    write_tensors(path, tensors, about)
    file = TensorFile.read(path)
    assert len(file.tensors) == 5000
    assert json.loads(file.header["paths"]) == about["paths"]


def test_what_nobody_could_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for about in ({"paths": ["x" * 2000] * 5000}, {"classes": [""] * 200_000}):
        with pytest.raises(ArtifactError, match=f"{path} cannot be written.*more than .*shorten"):
            write_tensors(path, {}, about)
    assert not path.exists()


def test_settings_larger_than_any_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(SettingsError, match="cannot be read .*: it has over 1,048,576 bytes"):
        read_settings(path)
