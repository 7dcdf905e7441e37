"""What a bench leaves behind: one JSON file with every number, and what it was measured with.

The classes below are that file, part by part. Who shows a record may have it from somebody else, so
it is checked as it is read.
"""

import reprlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from oddone.bench.recipes import Scale
from oddone.bench.sets import BenchImages
from oddone.bench.tables import TABLES, Column, Table
from oddone.data import ImageSet
from oddone.data.cifar import CIFAR10
from oddone.errors import ArtifactError
from oddone.evaluation import Evaluation, as_json
from oddone.files import read_regular, write_dated_json
from oddone.provenance import Machine, machine, now, versions

KIND = "oddone bench"
FORMAT = 2
LARGEST = 64 * 2**20  # bytes

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


@dataclass(frozen=True)
class ImagesRecord:
    """Images that were scored, or trained on as outliers."""

    images: int
    of: int
    """How many there are, of which these were drawn."""
    fingerprint: str


@dataclass(frozen=True)
class TrainingImagesRecord:
    """Images that were trained on."""

    images: int
    of: int
    fingerprint: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class DataRecord:
    """All images of a bench."""

    training: TrainingImagesRecord
    test: ImagesRecord
    oods: dict[str, ImagesRecord]
    outliers: ImagesRecord | None

    @staticmethod
    def of(sets: BenchImages) -> "DataRecord":
        """Return what a record says of the images of a bench."""
        training, outliers = sets.training, sets.outliers
        count = len(training)
        return DataRecord(
            TrainingImagesRecord(count, count, training.fingerprint, training.classes),
            _images(*sets.test),
            {name: _images(*sample) for name, sample in sets.oods.items()},
            None if outliers is None else _images(outliers, outliers),
        )


@dataclass(frozen=True)
class NetworkRecord:
    """A network that was trained for a table."""

    key: str
    """The name of its folder."""
    name: str
    start: str | None
    """The key of the network that it was fine-tuned from."""
    settings: dict[str, Any]
    steps: int
    minutes: float
    """By the clock."""
    processor_minutes: float | None = None
    """Of all cores; older records do not say."""
    step_seconds: float | None = None
    """Of processor time, by which minutes became steps; older records do not say."""


@dataclass(frozen=True)
class OODRecord:
    """How well an OOD set was told from the test images, as shares from 0 to 1."""

    images: int
    detected: Share | None
    auroc: Share
    fpr_at_95_ind: Share
    fpr_at_95_ood: Share
    aupr_in: Share
    aupr_out: Share


@dataclass(frozen=True)
class AverageRecord:
    """The means over some OOD sets, such as the near ones."""

    members: tuple[str, ...]
    detected: Share | None
    auroc: Share
    fpr_at_95_ind: Share
    fpr_at_95_ood: Share
    aupr_in: Share
    aupr_out: Share


@dataclass(frozen=True)
class ResultRecord:
    """The numbers of a row with one seed."""

    images: int
    accuracy: Share | None
    false_alarms: Share | None
    oods: dict[str, OODRecord]
    averages: dict[str, AverageRecord]

    @staticmethod
    def of(evaluation: Evaluation) -> "ResultRecord":
        """Return what a record says of an evaluation: all but the numbers of single classes."""
        return msgspec.convert(as_json(evaluation), ResultRecord)

    def share(self, column: Column) -> float | None:
        """Return the number of a column; None for the accuracy where no test image has a label."""
        if column.of is None:
            return self.accuracy
        measured = self.oods.get(column.of) or self.averages[column.of]
        share: float = getattr(measured, column.metric)
        return share


@dataclass(frozen=True)
class RowRecord:
    """The numbers of a row."""

    names: tuple[str, ...]
    model: str
    """The name of its network."""
    scoring: str
    """How images were scored by it, in words."""
    results: tuple[ResultRecord, ...]
    """One for each seed whose network is trained."""
    minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """The budget of its network in minutes of two cores, where rows differ in that."""
    keys: tuple[str, ...] = ()
    """The network of each result; older records do not say."""

    def numbers(self, column: Column) -> list[float]:
        """Return the number of each seed in percent; none where no test image has a label."""
        shares = [result.share(column) for result in self.results]
        return [100 * share for share in shares if share is not None]


@dataclass(frozen=True)
class EarlierRecord:
    """A record that numbers were taken over from."""

    date: str
    command: str
    machine: Machine


class Filled(NamedTuple):
    """What came out of a table."""

    models: tuple[NetworkRecord, ...]
    rows: tuple[RowRecord, ...]
    left_out: tuple[str, ...]
    """Rows and columns that could not be filled, and why."""
    earlier: tuple[EarlierRecord, ...] = ()
    """Where numbers come from that were not measured now."""


@dataclass(frozen=True)
class Record:
    """A filled table, and how it came about."""

    table: str
    scale: str
    scale_words: str
    seeds: int
    """How many were asked for; they are numbered from 0."""
    date: str
    command: str
    minutes: float
    """Of training, all networks together."""
    machine: Machine
    versions: dict[str, str]
    data: DataRecord
    models: tuple[NetworkRecord, ...]
    rows: tuple[RowRecord, ...]
    left_out: tuple[str, ...]
    earlier: tuple[EarlierRecord, ...] = ()

    @staticmethod
    def of(
        table: Table, scale: Scale, seeds: int, sets: BenchImages, filled: Filled, *, command: str
    ) -> "Record":
        """Return the record of a table that was filled now, on this machine."""
        return Record(
            table=table.name,
            scale=scale.name,
            scale_words=scale.words,
            seeds=seeds,
            date=now(),
            command=command,
            minutes=round(sum(model.minutes for model in filled.models), 2),
            machine=machine(),
            versions=versions("numpy", "scikit-learn"),
            data=DataRecord.of(sets),
            **filled._asdict(),
        )

    @property
    def machines(self) -> str:
        """Return what computed, in words: this machine, and those of earlier records."""
        used = (self.machine, *(each.machine for each in self.earlier))
        return "; ".join(dict.fromkeys(map(_described, used)))

    @property
    def columns(self) -> list[Column]:
        """What was measured: the columns of the table, then the AUROC of other OOD sets."""
        first = self.rows[0].results[0]
        there = {None, *first.oods, *first.averages}
        columns = [column for column in TABLES[self.table].columns if column.of in there]
        named = {column.of for column in columns}
        return columns + [Column("auroc", name) for name in first.oods if name not in named]

    def paper_number(self, row: RowRecord, column: Column) -> float | None:
        """Return what the paper has there, in percent; nothing where CIFAR-10 was not learned."""
        if self.data.training.classes != CIFAR10.classes:
            return None
        return TABLES[self.table].paper_number(row.names, column)


def write_record(folder: Path, record: Record) -> Path:
    """Write a record into a folder, under a name of its own, and return its path."""
    content = {"kind": KIND, "format": FORMAT, **asdict(record)}
    return write_dated_json(folder, f"bench-{record.table}-{record.scale}", content)


def read_record(path: Path) -> Record:
    """Return the record in a file, whole and of the right kind, or raise an ArtifactError."""
    try:
        content = msgspec.json.decode(_content(path))
        return _record(path, content)
    except RecursionError as error:
        raise ArtifactError(f"{path} is nested deeper than any record of oddone bench") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} is no JSON, so no record of oddone bench") from error


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ArtifactError(f"{path} has {size:,} bytes, more than any record of oddone bench")
        return read_regular(path, LARGEST)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from error


def _record(path: Path, content: Any) -> Record:
    """Return the record that the content of a JSON file describes."""
    if not isinstance(content, dict) or content.pop("kind", None) != KIND:
        raise ArtifactError(f"{path} is no record of oddone bench; name a file that it has written")
    written = content.pop("format", None)
    if written != FORMAT:
        raise ArtifactError(
            f"{path} has format {reprlib.repr(written)}, and this oddone reads {FORMAT}"
        )
    try:
        record = msgspec.convert(content, Record)
    except msgspec.ValidationError as error:
        raise ArtifactError(f"{path} is a damaged record: {error}; make it anew") from error
    wrong = next(_wrong_entries(content, asdict(record)), None) or _contradiction(record)
    if wrong is not None:
        raise ArtifactError(f"{path} is a damaged record: {wrong}; make it anew")
    return record


def _wrong_entries(content: Any, known: Any, where: str = "") -> Iterator[str]:
    """Yield which keys are none of a record's, and which texts could not be shown to people.

    `known` is the record made of the content, in which unknown keys are missing.
    """
    match content:
        case str() if not content.isprintable():
            yield f"{where} holds {reprlib.repr(content)}, which is not printable"
        case dict():
            for key, value in content.items():
                yield from _wrong_entries(key, None, where or "it")
                path = f"{where}.{key}".lstrip(".")
                if key not in known:
                    yield f"{path} is no part of a record"
                else:
                    yield from _wrong_entries(value, known[key], path)
        case list():
            for number, parts in enumerate(zip(content, known, strict=True)):
                yield from _wrong_entries(*parts, f"{where}.{number}")


def _contradiction(record: Record) -> str | None:
    """Return what does not fit together in a record whose parts are all of the right kind."""
    table = TABLES.get(record.table)
    if table is None:
        return f"there is no table {record.table!r}, only {', '.join(TABLES)}"
    if not record.rows:
        return "it has no rows"
    if record.seeds < 1:
        return f"it has {record.seeds} seeds"
    names = [(row.names[:1], row.minutes) if row.minutes else row.names for row in record.rows]
    if len(set(names)) < len(names):
        return "two of its rows are the same"
    if any(row.keys and len(row.keys) != len(row.results) for row in record.rows):
        return "a row has other numbers of networks and of results"
    found = (_contradiction_in(row, record, table) for row in record.rows)
    return next(filter(None, found), None)


def _contradiction_in(row: RowRecord, record: Record, table: Table) -> str | None:
    """Return what in a row does not fit the rest of its record."""
    name = " ".join(row.names)
    if len(row.names) != len(table.headings):
        return f"{name!r} has {len(row.names)} names, not {len(table.headings)}"
    told = any(reason.startswith(f"{name}: seed") for reason in record.left_out)
    if not (1 if told else record.seeds) <= len(row.results) <= record.seeds:
        return f"{name!r} has {len(row.results)} results for {record.seeds} seeds"
    if row.minutes is None and table.rows[0].minutes is not None:
        return f"{name!r} does not say its minutes"
    oods = record.data.oods
    if any(result.oods.keys() != oods.keys() for result in row.results):
        return f"{name!r} has not been measured on {', '.join(sorted(oods))}"
    averages = record.rows[0].results[0].averages
    if any(result.averages.keys() != averages.keys() for result in row.results):
        return f"{name!r} has other averages of OOD sets than the first row"
    return None


def _described(used: Machine) -> str:
    threads = "1 thread" if used.threads == 1 else f"{used.threads} threads"
    return used.gpu or f"{threads} of {used.processor}"


def _images(images: ImageSet, of: ImageSet) -> ImagesRecord:
    return ImagesRecord(len(images), len(of), of.fingerprint)
