"""Whole numbers among the options: 2.5 images are refused, where cyclopts would make them 2."""

from cyclopts import App, ArgumentCollection

from oddone.errors import SettingsError


def check_whole_numbers(
    _app: App, _commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Raise a SettingsError where a whole number is wanted and another one given."""
    for argument in arguments:
        if argument.hint not in (int, int | None):
            continue
        for token in argument.tokens:
            whole, point, rest = token.value.partition(".")
            if point and rest.isdecimal() and int(rest) > 0:
                raise SettingsError(
                    f"{argument.name} {token.value}: choose a whole number, such as {whole or 1}"
                )
