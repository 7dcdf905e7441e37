"""Settings as TOML and back. An unknown key is an error that suggests the nearest one."""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import tomli_w

from oddone.errors import SettingsError
from oddone.training.files import write_bytes
from oddone.training.settings import Training

Settings = TypeVar("Settings")


def write_settings(path: Path, settings: Training) -> None:
    """Write every setting, defaults included, to a TOML file."""
    write_bytes(path, tomli_w.dumps(as_tables(settings)).encode())


def read_settings(path: Path) -> Training:
    """Return the settings in a TOML file; what it leaves out has its default."""
    return from_tables(Training, read_tables(path), where=str(path))


def read_tables(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds, as nested dictionaries."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read as a settings file: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error


def as_tables(settings: object) -> dict[str, Any]:
    """Return settings as nested dictionaries; a setting that is None is left out."""
    fields = dataclasses.asdict(settings)  # type: ignore[call-overload]
    return _without_none(fields)


def from_tables(kind: type[Settings], tables: Mapping[str, Any], *, where: str) -> Settings:
    """Return the settings that nested dictionaries describe."""
    hints = get_type_hints(kind)
    unknown = sorted(set(tables) - set(hints))
    if unknown:
        near = difflib.get_close_matches(unknown[0], hints, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it knows {', '.join(hints)}"
        raise SettingsError(f"{where}: unknown setting {unknown[0]!r}{hint}")
    values = {
        key: from_tables(hints[key], value, where=f"{where} [{key}]")
        if dataclasses.is_dataclass(hints[key])
        else _plain(value)
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
