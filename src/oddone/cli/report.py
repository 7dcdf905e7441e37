"""`oddone report`: all about one detector, or up to four, on one page to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from oddone.cli.detectors import open_detector
from oddone.cli.sources import REPEATED, load_watched, sources_by_name
from oddone.cli.terminal import bar, say
from oddone.data.decode import Progress
from oddone.detector import Detector
from oddone.errors import SettingsError
from oddone.training import RunDirectory
from oddone.training.files import write_bytes

if TYPE_CHECKING:
    from oddone.report.figures import Illustration
    from oddone.report.gather import Gathered
    from oddone.report.page import Chapter

MOST_DETECTORS = 4
SEED = 0

app = App(name="report")


@app.default
def report(
    *detectors: Path,
    test: str,
    out: Path,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    pictures: Path | None = None,
    figures: Path | None = None,
) -> None:
    """Draw all about a detector on one page: what it knows, what it misses, and why.

    The page is one file that needs no network. Up to four detectors are compared on it.

    Example: `oddone report run --test fashion:known#test --ood unseen=fashion:unseen#test --out
    report.html`

    Parameters
    ----------
    detectors
        Directories of finished runs, or files of detectors.
    test
        Test images of the known classes, as `oddone data list` names them.
    out
        The page to write, .html. A file of that name is overwritten.
    ood
        Images to find odd, as NAME=SOURCE; may be given several times.
    pictures
        A folder of larger pictures, to show what shrinking leaves behind in them.
    figures
        A folder for each figure alone, as .svg and .png.
    """
    from oddone.report.figures import illustrate_embeddings  # noqa: PLC0415  (an extra)
    from oddone.report.gather import gather  # noqa: PLC0415
    from oddone.report.page import as_page  # noqa: PLC0415

    _check(detectors, out, pictures, figures)
    sources = sources_by_name(ood)
    opened = {name: open_detector(path) for name, path in _named(detectors).items()}
    sizes = {detector.image_size for detector in opened.values()}
    known = {size: load_watched(test, size) for size in sizes}
    odd = {
        size: {name: load_watched(source, size) for name, source in sources.items()}
        for size in sizes
    }
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        gathered = [
            gather(name, detector, known[size], odd[size], seed=SEED, progress=progress)
            for name, detector in opened.items()
            for size in [detector.image_size]
        ]
        together = list(illustrate_embeddings(gathered, SEED, progress))
        chapters = [
            _chapter(each, opened[each.name], path, pictures)
            for each, path in zip(gathered, detectors, strict=True)
        ]
        _write(as_page(chapters, together, {"test images": test, **sources}), out)
        if figures is not None:
            _save_figures(chapters, together, figures, progress)
    say(f"the page is {out}")
    if figures is not None:
        say(f"the figures are in {figures}")


def _check(
    detectors: Sequence[Path], out: Path, pictures: Path | None, figures: Path | None
) -> None:
    """Say before the long work what is wrong with the call."""
    if not 1 <= len(detectors) <= MOST_DETECTORS:
        raise SettingsError(
            f"{len(detectors)} detectors: name 1 to {MOST_DETECTORS}, runs or files of detectors"
        )
    if out.suffix.lower() != ".html":
        raise SettingsError(f"--out {out}: let the name end in .html")
    if out.is_dir() or not out.parent.is_dir():
        raise SettingsError(f"--out {out}: name a file in a folder that exists")
    if pictures is not None and not pictures.is_dir():
        raise SettingsError(f"--pictures {pictures} is no folder; give one with pictures in it")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise SettingsError(f"--figures {figures} is a file; name a folder")


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the detectors by names: of the run or file, or if two are the same, the path."""
    names = [_name(path) for path in paths]
    named = {
        str(path) if names.count(name) > 1 else name: path
        for name, path in zip(names, paths, strict=True)
    }
    if len(named) < len(paths):
        raise SettingsError(f"{', '.join(map(str, paths))}: name each detector once")
    return named


def _name(path: Path) -> str:
    """Return what a detector is called: its run, where its file has the name of all files."""
    is_run = path.is_dir() or path.name == RunDirectory(path.parent).detector.name
    run = path if path.is_dir() else path.parent
    return run.resolve().name if is_run else path.stem


def _chapter(
    gathered: "Gathered", detector: Detector, path: Path, pictures: Path | None
) -> "Chapter":
    from oddone.report.figures import illustrate, illustrate_artefacts  # noqa: PLC0415  (an extra)
    from oddone.report.gather import shrink_both_ways  # noqa: PLC0415
    from oddone.report.page import Chapter  # noqa: PLC0415

    illustrations = list(illustrate(gathered, list(RunDirectory(path).history())))
    if pictures is not None:
        illustrations.append(illustrate_artefacts(shrink_both_ways(detector, pictures)))
    return Chapter(gathered.name, gathered.evaluation, gathered.seen_in_training, illustrations)


def _save_figures(
    chapters: "Sequence[Chapter]",
    together: "Sequence[Illustration]",
    folder: Path,
    progress: Progress,
) -> None:
    """Write each figure alone; those of several detectors are told apart by a number."""
    from oddone.report import save_figure  # noqa: PLC0415  (an extra)

    named = {illustration.name: illustration for illustration in together}
    for place, chapter in enumerate(chapters, start=1):
        number = f"-{place}" if len(chapters) > 1 else ""
        named |= {f"{each.name}{number}": each for each in chapter.illustrations}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"--figures {folder} cannot be made: {error.strerror}; choose another folder"
        ) from error
    for place, (name, illustration) in enumerate(named.items(), start=1):
        save_figure(illustration.figure, folder / f"{name}.svg")
        save_figure(illustration.figure, folder / f"{name}.png")
        progress(place, len(named), "figures")


def _write(page: str, out: Path) -> None:
    try:
        write_bytes(out, page.encode())
    except OSError as error:
        raise SettingsError(
            f"--out {out} cannot be written: {error.strerror}; choose another place"
        ) from error
