"""Pictures in a Parquet file: a column of bytes, and perhaps columns of labels and of names.

The column of pictures holds the bytes of picture files, or, as Hugging Face writes them, structs of
`bytes` and `path`. A column is chosen by its name; the names that are looked for are below.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from oddone.data.limits import DamagedFileError, is_plausible, too_long
from oddone.data.packed import PackedLabel, PackedPicture, open_place
from oddone.errors import DataError

IMAGES = ("image", "images", "img", "image_bytes", "bytes", "jpg", "jpeg", "png", "picture")
LABELS = ("class_name", "label", "labels", "class", "cls", "target")
NAMES = ("path", "file_name", "filename", "name", "key", "__key__")
ROWS_AT_ONCE = 16
BUFFER = 2**20  # bytes of a column that are read at a time
LONGEST_TEXT = 1000  # characters of a name or label
COLUMNS_SHOWN = 10


class RowGroup(NamedTuple):
    """The rows of a Parquet file that were written together."""

    number: int
    first_row: int
    rows: int


class _Columns(NamedTuple):
    image: str
    """Of a struct, the path to its bytes."""
    label: str | None
    name: str | None


class _OpenParquet(NamedTuple):
    file: Any
    columns: _Columns
    groups: list[RowGroup]
    stored: int


def row_groups(place: str) -> list[RowGroup]:
    """Return the row groups of a file that have any rows."""
    with _open(place) as opened:
        return opened.groups


def read_parquet(place: str, numbers: Sequence[int] | None = None) -> Iterator[PackedPicture]:
    """Yield the pictures of a file, or of the row groups with these numbers, in order."""
    try:
        with _open(place) as opened:
            chosen = opened.groups
            if numbers is not None:
                chosen = [group for group in chosen if group.number in numbers]
            yield from _pictures(place, opened, chosen)
    except (DataError, OSError) as error:
        yield PackedPicture(place, str(error))


def list_parquet(place: str) -> Iterator[PackedLabel]:
    """Yield the names and labels of the pictures of a file, in order; damage is an error."""
    with _open(place) as opened:
        columns = opened.columns
        wanted = [name for name in (columns.label, columns.name) if name is not None]
        rows = sum(group.rows for group in opened.groups)
        if not wanted:
            yield from (PackedLabel(f"{place}[{row}]", 0, None) for row in range(rows))
            return
        for row, values in _rows(opened, opened.groups, wanted):
            label = None if columns.label is None else _label(_inside(values, columns.label), place)
            yield PackedLabel(_name(place, row, values, columns.name), 0, label)


def _pictures(
    place: str, opened: _OpenParquet, groups: Sequence[RowGroup]
) -> Iterator[PackedPicture]:
    columns = opened.columns
    wanted = [name for name in (columns.image, columns.name) if name is not None]
    read = 0
    for row, values in _rows(opened, groups, wanted):
        content = _inside(values, columns.image)
        name = _name(place, row, values, columns.name)
        if not isinstance(content, bytes):
            yield PackedPicture(name, "it has no image")
            continue
        read += len(content)
        if not is_plausible(read, opened.stored):
            raise DataError(_damaged(place, f"it unpacks to over {read:,} bytes"))
        yield PackedPicture(name, too_long(len(content)) or content)


def _rows(
    opened: _OpenParquet, groups: Sequence[RowGroup], columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row in its file, and its values."""
    for group in groups:
        row = group.first_row
        batches = opened.file.iter_batches(
            batch_size=ROWS_AT_ONCE,
            row_groups=[group.number],
            columns=list(columns),
            use_threads=False,
        )
        for batch in batches:
            for values in batch.to_pylist():
                yield row, values
                row += 1


@contextmanager
def _open(place: str) -> Iterator[_OpenParquet]:
    """Yield the file with its columns and row groups. Damage is a DataError."""
    pyarrow, parquet = _packages(place)
    try:
        with (
            open_place(place, from_the_start=False) as opened,
            parquet.ParquetFile(opened.file, buffer_size=BUFFER, pre_buffer=False) as file,
        ):
            groups = _groups(file.metadata, opened.size)
            columns = _choose_columns(place, file.schema_arrow, pyarrow)
            yield _OpenParquet(file, columns, groups, opened.size)
    # Arrow's own errors are ValueErrors, OSErrors, KeyErrors and more, by what is damaged.
    except (pyarrow.ArrowException, ValueError, OSError, LookupError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(_damaged(place, " ".join(str(error).split())[:200])) from error
    except DamagedFileError as error:
        raise DataError(_damaged(place, str(error))) from error


def _packages(place: str) -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra)
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise DataError(
            f"{place} needs a package that is not here: pip install 'oddone[parquet]'"
        ) from error
    return pa, parquet


def _damaged(place: str, why: str) -> str:
    return f"cannot read {place} as Parquet: {why or 'it is damaged'}; copy or write it again"


def _groups(metadata: Any, stored: int) -> list[RowGroup]:
    """Return the row groups; before anything is read, what they would take is checked."""
    groups: list[RowGroup] = []
    row = 0
    for number in range(metadata.num_row_groups):
        about = metadata.row_group(number)
        sizes = [
            about.column(column).total_uncompressed_size for column in range(about.num_columns)
        ]
        if not sum(sizes) >= 0 or not is_plausible(sum(sizes), stored):
            raise DamagedFileError(f"a row group would have {sum(sizes):,} bytes")
        if about.num_rows > 0:
            groups.append(RowGroup(number, row, about.num_rows))
            row += about.num_rows
    return groups


def _choose_columns(place: str, schema: Any, pyarrow: Any) -> _Columns:
    """Return which columns hold the pictures, their labels and their names."""
    kinds = pyarrow.types
    images: dict[str, str] = {}  # by the name of the column, the path to its bytes
    inner_name = None
    for field in schema:
        if kinds.is_binary(field.type) or kinds.is_large_binary(field.type):
            images[field.name] = field.name
        elif kinds.is_struct(field.type) and field.type.get_field_index("bytes") >= 0:
            images[field.name] = f"{field.name}.bytes"
    known = [name for name in IMAGES if name in images]
    chosen = known[0] if known else next(iter(images), None)
    if chosen is None or (not known and len(images) > 1):
        names = ", ".join(schema.names[:COLUMNS_SHOWN])
        raise DataError(
            f"{place} has no column of pictures (it has {names}); name one of bytes `image`"
        )
    if images[chosen] != chosen and schema.field(chosen).type.get_field_index("path") >= 0:
        inner_name = f"{chosen}.path"
    plain = {
        field.name
        for field in schema
        if kinds.is_string(field.type)
        or kinds.is_large_string(field.type)
        or kinds.is_dictionary(field.type)
        or kinds.is_integer(field.type)
    }
    numbers = {
        field.name
        for field in schema
        if kinds.is_boolean(field.type) or kinds.is_floating(field.type)
    }
    label = next((name for name in LABELS if name in plain | numbers), None)
    name = next((name for name in NAMES if name in plain), inner_name)
    return _Columns(images[chosen], label, name)


def _inside(values: dict[str, Any], path: str) -> Any:
    """Return the value of a column, or of a part of a struct."""
    column, _, part = path.rpartition(".") if path not in values else ("", "", path)
    if not column:
        return values[part]
    struct = values[column]
    return None if struct is None else struct[part]


def _label(value: Any, place: str) -> str | int | None:
    """Return a label as text or an integer. Pandas makes integers floats where one is missing."""
    if isinstance(value, bool | str):
        return str(value)[:LONGEST_TEXT]
    if not isinstance(value, float):
        return cast("int | None", value)
    if math.isnan(value):
        return None
    if not value.is_integer():
        raise DataError(
            f"{place} has the label {value:g}; write whole numbers or text, or leave the column out"
        )
    return int(value)


def _name(place: str, row: int, values: dict[str, Any], column: str | None) -> str:
    name = None if column is None else _inside(values, column)
    return f"{place}[{row}]" if name in (None, "") else f"{place}/{str(name)[:LONGEST_TEXT]}"
