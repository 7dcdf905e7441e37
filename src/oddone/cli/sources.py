"""Images that a command is given by name: loaded with a bar, broken files listed."""

from cyclopts import Parameter
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from oddone.cli.terminal import bar, list_broken, printable
from oddone.data import ImageSet, load
from oddone.errors import SettingsError

REPEATED = Parameter(negative=(), show_default=False)
"""Of an option that may be given several times."""


def load_watched(source: str, size: int | None, *, strict: bool = False) -> ImageSet:
    """Return the images that the source names, and say which files could not be read."""
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        images = load(source, size=size, strict=strict, progress=progress)
    list_broken(images.broken)
    return images


def sources_by_name(oods: tuple[str, ...]) -> dict[str, str]:
    """Return what `--ood NAME=SOURCE` named; a source without a name is called what it is."""
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
