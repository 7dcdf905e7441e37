"""Settings as TOML and back. An unknown key or a value of a wrong type is an error with a hint."""

import dataclasses
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import tomli_w

from oddone.errors import SettingsError, closest_match
from oddone.files import read_regular
from oddone.training.settings import TrainSettings

MOST_BYTES = 2**20
IN_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def as_toml(settings: TrainSettings) -> bytes:
    """Return every setting, defaults included, as TOML that can be read again."""
    values = to_dict(settings)
    _check(TrainSettings, values, where="settings")
    return tomli_w.dumps(values).encode()


def read_settings(path: Path) -> TrainSettings:
    """Return the settings in a TOML file; what it leaves out has its default."""
    return from_dict(read_toml(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings that a TOML file holds, some or all, as nested dictionaries."""
    try:
        values = tomllib.loads(read_regular(path, MOST_BYTES).decode())
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read as a settings file: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    _check(TrainSettings, values, where=str(path))
    return values


def to_dict(settings: TrainSettings) -> dict[str, Any]:
    """Return settings as nested dictionaries; a setting that is None is left out."""
    return dataclasses.asdict(settings, dict_factory=_table)


def _check(kind: type, values: Mapping[str, Any], *, where: str, above: str = "") -> None:
    """Refuse keys that are no settings of this kind, and values that are not of their type.

    They are checked setting by setting, because a file may hold only some of them.
    """
    hints = get_type_hints(kind)
    for key, value in values.items():
        name = f"{above}{key}"
        if key not in hints:
            near = closest_match(key, hints)
            hint = f"did you mean {above + near!r}?" if near else f"it knows {', '.join(hints)}"
            raise SettingsError(f"{where}: unknown setting {name!r}; {hint}")
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, dict):
            _check(hints[key], value, where=where, above=f"{name}.")
            continue
        try:
            msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            wanted = _in_words(hints[key])
            raise SettingsError(
                f"{where}: {name}={reprlib.repr(value)}: choose {wanted}"
            ) from error


def from_dict(values: Mapping[str, Any]) -> TrainSettings:
    """Return the settings that checked values describe, unless they contradict each other."""
    try:
        return msgspec.convert(values, TrainSettings)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, SettingsError):  # raised by a __post_init__
            raise error.__cause__ from None
        raise SettingsError(f"the settings cannot be used: {error}") from error


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


def _table(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a dataclass as a TOML table, which knows no None and no tuple."""
    return {name: _plain(value) for name, value in fields if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value
