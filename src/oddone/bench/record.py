"""What a bench leaves behind: one JSON file with every number, and what it was measured with.

Who shows a record may have it from somebody else, so it is checked as it is read.
"""

import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from oddone.bench.recipes import Scale
from oddone.bench.schema import Maybe, Named, Schema, Share, check
from oddone.bench.sets import BenchImages
from oddone.bench.tables import TABLES, Column, Table
from oddone.data import ImageSet
from oddone.data.cifar import CIFAR10
from oddone.errors import ArtifactError
from oddone.evaluation import OODMetrics
from oddone.files import write_json

KIND = "oddone bench"
FORMAT = 1
LARGEST = 64 * 2**20  # bytes


class ModelRecord(NamedTuple):
    """A network that was trained for a table."""

    key: str
    """The name of its folder."""
    name: str
    start: str | None
    """The key of the network that it was fine-tuned from."""
    settings: dict[str, Any]
    steps: int
    minutes: float


class RowRecord(NamedTuple):
    """The numbers of a row."""

    names: tuple[str, ...]
    model: str
    how: str
    results: tuple[dict[str, Any], ...]
    """One for each seed, as `oddone.evaluation.as_json` makes it."""

    def numbers(self, column: Column) -> list[float]:
        """Return the number of each seed in percent; none where no test image has a label."""
        shares = [
            result["accuracy"]
            if column.of is None
            else (result["oods"] | result["groups"])[column.of][column.metric]
            for result in self.results
        ]
        return [100 * share for share in shares if share is not None]


class Filled(NamedTuple):
    """What came out of a table."""

    models: tuple[ModelRecord, ...]
    rows: tuple[RowRecord, ...]
    left_out: tuple[str, ...]
    """Rows and columns that could not be filled, and why."""


@dataclass(frozen=True)
class Record:
    """A filled table, and how it came about."""

    table: str
    scale: str
    scale_words: str
    seeds: int
    """They are numbered from 0."""
    date: str
    command: str
    minutes: float
    """Of training, all networks together."""
    machine: dict[str, Any]
    versions: dict[str, str]
    data: dict[str, Any]
    models: tuple[ModelRecord, ...]
    rows: tuple[RowRecord, ...]
    left_out: tuple[str, ...]

    @staticmethod
    def of(
        table: Table, scale: Scale, seeds: int, sets: BenchImages, filled: Filled, *, command: str
    ) -> "Record":
        """Return the record of a table that was filled now, on this machine."""
        training, outliers = sets.training, sets.outliers
        return Record(
            table=table.name,
            scale=scale.name,
            scale_words=scale.words,
            seeds=seeds,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            command=command,
            minutes=round(sum(model.minutes for model in filled.models), 2),
            machine=_machine(),
            versions={"python": platform.python_version()}
            | {name: version(name) for name in ("oddone", "torch", "numpy", "scikit-learn")},
            data={
                "training": _about(training, training) | {"classes": list(training.classes)},
                "test": _about(*sets.test),
                "oods": {name: _about(*sample) for name, sample in sets.oods.items()},
                "outliers": None if outliers is None else _about(outliers, outliers),
            },
            **filled._asdict(),
        )

    @property
    def columns(self) -> list[Column]:
        """What was measured: the columns of the table, then the AUROC of other OOD sets."""
        first = self.rows[0].results[0]
        there = {None, *first["oods"], *first["groups"]}
        columns = [column for column in TABLES[self.table].columns if column.of in there]
        named = {column.of for column in columns}
        return columns + [Column("auroc", name) for name in first["oods"] if name not in named]

    def paper_number(self, row: RowRecord, column: Column) -> float | None:
        """Return what the paper has there, in percent; nothing where CIFAR-10 was not learned."""
        if tuple(self.data["training"]["classes"]) != CIFAR10.classes:
            return None
        return TABLES[self.table].paper_number(row.names, column)


def write_record(folder: Path, record: Record) -> Path:
    """Write a record into a folder, under a name of its own, and return its path."""
    when = datetime.fromisoformat(record.date)
    path = folder / f"{when:%Y-%m-%d-%H%M%S}-bench-{record.table}-{record.scale}.json"
    content = asdict(record) | {
        "models": [model._asdict() for model in record.models],
        "rows": [row._asdict() for row in record.rows],
    }
    write_json(path, {"kind": KIND, "format": FORMAT, **content})
    return path


def read_record(path: Path) -> Record:
    """Return the record in a file, whole and of the right kind, or raise an ArtifactError."""
    content = _content(path)
    if not isinstance(content, dict) or content.pop("kind", None) != KIND:
        raise ArtifactError(f"{path} is no record of oddone bench")
    written = content.pop("format", None)
    if written != FORMAT:
        raise ArtifactError(f"{path} has format {written}, and this oddone reads {FORMAT}")
    wrong = check(content, RECORD) or _contradiction(content)
    if wrong is not None:
        raise ArtifactError(f"{path} is a damaged record: {wrong}; make it anew")
    models = tuple(ModelRecord(**model) for model in content.pop("models"))
    rows = tuple(
        RowRecord(tuple(row["names"]), row["model"], row["how"], tuple(row["results"]))
        for row in content.pop("rows")
    )
    left_out = tuple(content.pop("left_out"))
    return Record(models=models, rows=rows, left_out=left_out, **content)


METRICS: Schema = {"images": int, "caught": Maybe(Share)} | dict.fromkeys(OODMetrics._fields, Share)
RESULT: Schema = {
    "images": int,
    "accuracy": Maybe(Share),
    "false_alarms": Maybe(Share),
    "oods": Named(METRICS),
    "groups": Named(
        {"members": [str], "caught": Maybe(Share)} | dict.fromkeys(OODMetrics._fields, Share)
    ),
}
IMAGES: Schema = {"images": int, "of": int, "fingerprint": str}
RECORD: Schema = {
    "table": str,
    "scale": str,
    "scale_words": str,
    "seeds": int,
    "date": str,
    "command": str,
    "minutes": float,
    "machine": {"system": str, "processor": str, "threads": int, "gpu": Maybe(str)},
    "versions": Named(str),
    "data": {
        "training": IMAGES | {"classes": [str]},
        "test": IMAGES,
        "oods": Named(IMAGES),
        "outliers": Maybe(IMAGES),
    },
    "models": [
        {
            "key": str,
            "name": str,
            "start": Maybe(str),
            "settings": dict,
            "steps": int,
            "minutes": float,
        }
    ],
    "rows": [{"names": [str], "model": str, "how": str, "results": [RESULT]}],
    "left_out": [str],
}


def _content(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise ArtifactError(
                f"{path} has {path.stat().st_size:,} bytes, more than any record of oddone bench"
            )
        return json.loads(path.read_text())
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{path} is no JSON, so no record of oddone bench") from error


def _contradiction(content: dict[str, Any]) -> str | None:
    """Return what does not fit together in a record whose parts are all of the right kind."""
    table = TABLES.get(content["table"])
    if table is None:
        return f"there is no table {content['table']!r}, only {', '.join(TABLES)}"
    if not content["rows"]:
        return "it has no rows"
    if content["seeds"] < 1:
        return f"it has {content['seeds']} seeds"
    found = (_contradiction_in(row, content, table) for row in content["rows"])
    return next(filter(None, found), None)


def _contradiction_in(row: dict[str, Any], content: dict[str, Any], table: Table) -> str | None:
    """Return what in a row does not fit the rest of its record."""
    name, results = " ".join(row["names"]), row["results"]
    if len(row["names"]) != len(table.headings):
        return f"{name!r} has {len(row['names'])} names, not {len(table.headings)}"
    if len(results) != content["seeds"]:
        return f"{name!r} has {len(results)} results for {content['seeds']} seeds"
    oods = content["data"]["oods"]
    if any(result["oods"].keys() != oods.keys() for result in results):
        return f"{name!r} has not been measured on {', '.join(sorted(oods))}"
    groups = content["rows"][0]["results"][0]["groups"]
    if any(result["groups"].keys() != groups.keys() for result in results):
        return f"{name!r} has other groups of OOD sets than the first row"
    return None


def _about(images: ImageSet, of: ImageSet) -> dict[str, Any]:
    return {"images": len(images), "of": len(of), "fingerprint": of.fingerprint}


def _machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")
