"""Options that several commands share, and how they are parsed."""

from collections.abc import Sequence

from cyclopts import UNSET, App, ArgumentCollection, Parameter

from oddone.cli.terminal import printable
from oddone.errors import SettingsError

REPEATED = Parameter(negative=(), show_default=False)
"""Marks an option that may be given several times."""


def sources_by_name(oods: tuple[str, ...]) -> dict[str, str]:
    """Return the source of each `--ood NAME=SOURCE` by its name; without NAME, it is the source."""
    sources: dict[str, str] = {}
    for text in oods:
        name, source = text.split("=", maxsplit=1) if "=" in text else (text, text)
        if not name or not source:
            raise SettingsError(f"--ood {text}: write NAME=SOURCE, such as svhn=svhn:PATH#test")
        name = printable(name)
        if name in sources:
            raise SettingsError(f"--ood {text}: {name!r} is there already; choose another name")
        sources[name] = source
    return sources


def digest_of_each(sha256: Sequence[str], detectors: int) -> Sequence[str | None]:
    """Return the digest that each of several detectors must have, given by `--sha256` in turn."""
    if sha256 and len(sha256) != detectors:
        raise SettingsError(
            f"--sha256 is given {len(sha256)} times for {detectors} detectors; give one for each"
        )
    return sha256 or [None] * detectors


def check_values(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Raise a SettingsError where a value is empty, or where an option takes an integer and is 2.5.

    An empty path would be the folder one is in, and cyclopts would round 2.5 down. It calls this
    function with the parsed command line.
    """
    for argument in arguments:
        for token in argument.tokens:
            if token.implicit_value is UNSET and not token.value:
                raise SettingsError(
                    f"{argument.name} is empty; give it a value, or leave it out (is a variable of "
                    f"the shell not set?)"
                )
            if argument.hint in (int, int | None):
                _check_whole_number(argument.name, token.value)


def _check_whole_number(name: str, value: str) -> None:
    whole, point, rest = value.partition(".")
    if point and rest.isdecimal() and int(rest) > 0:
        raise SettingsError(f"{name} {value}: choose a whole number, such as {whole or 1}")
