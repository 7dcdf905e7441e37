"""Settings as TOML and back. An unknown key or a value of a wrong type is an error with a hint."""

import dataclasses
import reprlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tomli_w

from oddone.errors import SettingsError, closest_match
from oddone.training.settings import TrainSettings

Settings = TypeVar("Settings")

IN_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def as_toml(settings: TrainSettings) -> bytes:
    """Return every setting, defaults included, as TOML that can be read again."""
    tables = to_dict(settings)
    _check(TrainSettings, tables, where="settings")
    return tomli_w.dumps(tables).encode()


def read_settings(path: Path) -> TrainSettings:
    """Return the settings in a TOML file; what it leaves out has its default."""
    return _built(TrainSettings, read_toml(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings that a TOML file holds, some or all, as nested dictionaries."""
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read as a settings file: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    _check(TrainSettings, tables, where=str(path))
    return tables


def to_dict(settings: object) -> dict[str, Any]:
    """Return settings as nested dictionaries; a setting that is None is left out."""
    fields = dataclasses.asdict(settings)  # type: ignore[call-overload]
    return _without_none(fields)


def from_dict(tables: Mapping[str, Any], *, where: str) -> TrainSettings:
    """Return the settings that nested dictionaries describe."""
    _check(TrainSettings, tables, where=where)
    return _built(TrainSettings, tables)


def _check(kind: type, tables: Mapping[str, Any], *, where: str, above: str = "") -> None:
    """Refuse keys that are no settings of this kind, and values that are not of their type."""
    hints = get_type_hints(kind)
    for key, value in tables.items():
        name = f"{above}{key}"
        if key not in hints:
            near = closest_match(key, hints)
            hint = f"did you mean {above + near!r}?" if near else f"it knows {', '.join(hints)}"
            raise SettingsError(f"{where}: unknown setting {name!r}; {hint}")
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, dict):
            _check(hints[key], value, where=where, above=f"{name}.")
        elif not _fits(value, hints[key]):
            wanted = _in_words(hints[key])
            raise SettingsError(f"{where}: {name}={reprlib.repr(value)}: choose {wanted}")


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value, as TOML and JSON have them, is of the type that a setting has."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if kind is UnionType:
        return any(_fits(value, part) for part in parts)
    if kind is tuple:
        return (
            isinstance(value, list) and len(value) == len(parts) and all(map(_fits, value, parts))
        )
    if isinstance(value, bool):  # to Python, but not to people, it is a number
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def _in_words(hint: Any) -> str:
    """Return what a value of this type is to a person who writes TOML."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Literal:
        return " or ".join(map(repr, parts))
    if kind is UnionType:
        return _in_words(parts[0])  # the other is None, which is written by leaving it out
    if kind is tuple:
        return f"a list of {len(parts)} numbers"
    return IN_WORDS.get(hint, "a table")


def _built(kind: type[Settings], tables: Mapping[str, Any]) -> Settings:
    hints = get_type_hints(kind)
    values = {
        key: _built(hints[key], value) if dataclasses.is_dataclass(hints[key]) else _plain(value)
        for key, value in tables.items()
    }
    return kind(**values)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _without_none(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else _listed(value)
        for key, value in tables.items()
        if value is not None
    }


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
