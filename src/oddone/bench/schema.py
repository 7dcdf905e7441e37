"""Whether what JSON holds has a shape: a few lines, for the one kind of file that needs them."""

import math
from typing import Any, NamedTuple, TypeAlias

Schema: TypeAlias = Any
"""A type; {name: Schema}, all of them; [Schema], any number; or one of the classes below."""


class Maybe(NamedTuple):
    """One of these, or null."""

    schema: Schema


class Named(NamedTuple):
    """Any number of these, by names."""

    schema: Schema


class Share:
    """A number from 0 to 1."""


def check(value: Any, schema: Schema, where: str = "") -> str | None:
    """Return what is wrong first, if anything is. Texts must be printable: people will see them."""
    wrong = _wrong_here(value, schema)
    if wrong is not None:
        return f"{where or 'the whole'} {wrong}"
    for name, inner, inner_schema in _parts(value, schema):
        wrong = check(inner, inner_schema, f"{where}.{name}".lstrip("."))
        if wrong is not None:
            return wrong
    return None


def _wrong_here(value: Any, schema: Schema) -> str | None:
    match schema:
        case Maybe():
            return None if value is None else _wrong_here(value, schema.schema)
        case Named():
            fits = isinstance(value, dict) and all(map(str.isprintable, value))
            return None if fits else "is no object of printable names"
        case dict():
            fits = isinstance(value, dict) and value.keys() == schema.keys()
            return None if fits else f"is no object of {', '.join(schema)}"
        case list():
            return None if isinstance(value, list) else "is no list"
    return None if _is_a(value, schema) else f"is {_brief(value)}, no {schema.__name__.lower()}"


def _is_a(value: Any, kind: type) -> bool:
    if kind is Share:
        return _is_number(value) and 0 <= value <= 1
    if kind is float:
        return _is_number(value) and math.isfinite(value)
    if kind is str:
        return isinstance(value, str) and value.isprintable()
    return type(value) is kind  # and not isinstance: a bool is no number


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _parts(value: Any, schema: Schema) -> list[tuple[str, Any, Schema]]:
    match schema:
        case Maybe():
            return [] if value is None else _parts(value, schema.schema)
        case Named():
            return [(name, inner, schema.schema) for name, inner in value.items()]
        case dict():
            return [(name, value[name], inner) for name, inner in schema.items()]
        case list():
            return [(str(number), inner, schema[0]) for number, inner in enumerate(value)]
    return []


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
