"""`oddone report`: all about up to four detectors, or records, on one page to look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App

from oddone.bench import read_record
from oddone.cli.loading import load_images, open_detector
from oddone.cli.options import REPEATED, sources_by_name
from oddone.cli.out_file import check_out_file, write_out_file
from oddone.cli.terminal import progress_bar, say
from oddone.detector import Detector
from oddone.errors import SettingsError
from oddone.training import RunDirectory

if TYPE_CHECKING:
    from oddone.report.figures import Illustration
    from oddone.report.gather import Gathered
    from oddone.report.page import Chapter

MOST_DETECTORS = 4
SEED = 0

app = App(name="report")


@app.default
def report(
    *subjects: Path,
    out: Path,
    test: str | None = None,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    pictures: Path | None = None,
    figures: Path | None = None,
) -> None:
    """Draw all about a detector on one page: what it knows, what it misses, and why.

    The page is one file that needs no network. Up to four detectors are compared on it. Or it is
    about records of `oddone bench`: their tables beside the paper's, to look at.

    Example: `oddone report run --test fashion:known#test --ood unseen=fashion:unseen#test --out
    report.html`

    Example: `oddone report bench/*.json --out report.html`

    Parameters
    ----------
    subjects
        Directories of finished runs, or files of detectors; or records of `oddone bench`, .json.
    out
        The page to write, .html. A file of that name is overwritten.
    test
        Test images of the known classes, as `oddone data list` names them; for detectors.
    ood
        Images to find odd, as NAME=SOURCE; may be given several times; for detectors.
    pictures
        A folder of larger pictures, to show what shrinking leaves behind in them; for detectors.
    figures
        A folder for each figure alone, as .svg and .png.
    """
    _check_places(out, figures)
    if any(map(_is_record, subjects)):
        _check_records(subjects, {"--test": test, "--ood": ood, "--pictures": pictures})
        page, illustrations = _tell_of_records(subjects)
    else:
        page, illustrations = _tell_of_detectors(subjects, test, ood, pictures)
    write_out_file(out, page.encode())
    say(f"the page is {out}")
    if figures is not None:
        _save_figures(illustrations, figures)
        say(f"the figures are in {figures}")


def _check_places(out: Path, figures: Path | None) -> None:
    """Say before the long work where nothing can be written."""
    check_out_file(out, (".html",))
    if figures is not None and figures.exists() and not figures.is_dir():
        raise SettingsError(f"--figures {figures} is a file; name a folder")


# --- Records ----------------------------------------------------------------------------------


def _is_record(path: Path) -> bool:
    return path.suffix.lower() == ".json" and not path.is_dir()


def _check_records(subjects: Sequence[Path], options: Mapping[str, object]) -> None:
    for path in subjects:
        if not _is_record(path):
            raise SettingsError(
                f"{path} is no record (.json) as the others are; report on records and on "
                f"detectors one after the other"
            )
    for option, value in options.items():
        if value:
            raise SettingsError(
                f"{option} is for detectors, and a record holds its numbers already; leave it out"
            )


def _tell_of_records(paths: Sequence[Path]) -> "tuple[str, dict[str, Illustration]]":
    """Return the page on records, and its figures by name."""
    from oddone.cli.record_chapter import chapter_of  # noqa: PLC0415  (an extra)
    from oddone.report.figures import by_name  # noqa: PLC0415
    from oddone.report.record_page import as_record_page  # noqa: PLC0415

    records = [read_record(path) for path in paths]
    named = _told_apart([record.table for record in records], paths)
    chapters = [
        chapter_of(name, record, path.parent)
        for (name, path), record in zip(named.items(), records, strict=True)
    ]
    page = as_record_page(chapters, {name: path.name for name, path in named.items()})
    return page, by_name([chapter.illustrations for chapter in chapters])


# --- Detectors --------------------------------------------------------------------------------


def _tell_of_detectors(
    paths: Sequence[Path], test: str | None, ood: tuple[str, ...], pictures: Path | None
) -> "tuple[str, dict[str, Illustration]]":
    """Return the page on detectors, and its figures by name."""
    from oddone.report.figures import by_name, illustrate_embeddings  # noqa: PLC0415  (an extra)
    from oddone.report.gather import gather  # noqa: PLC0415
    from oddone.report.page import as_page  # noqa: PLC0415

    _check_detectors(paths, pictures)
    if test is None:
        raise SettingsError(
            "a detector is reported on by test images of its classes; name them with --test SOURCE"
        )
    named = _told_apart([_name(path) for path in paths], paths)
    sources = sources_by_name(ood)
    opened = {name: open_detector(path) for name, path in named.items()}
    sizes = {detector.image_size for detector in opened.values()}
    known = {size: load_images(test, size) for size in sizes}
    odd = {
        size: {name: load_images(source, size) for name, source in sources.items()}
        for size in sizes
    }
    with progress_bar() as progress:
        gathered = [
            gather(name, detector, known[size], odd[size], seed=SEED, progress=progress)
            for name, detector in opened.items()
            for size in [detector.image_size]
        ]
        together = list(illustrate_embeddings(gathered, SEED, progress))
    chapters = [_chapter(each, opened[each.name], named[each.name], pictures) for each in gathered]
    page = as_page(chapters, together, {"test images": test, **sources})
    return page, by_name([together]) | by_name([each.illustrations for each in chapters])


def _check_detectors(paths: Sequence[Path], pictures: Path | None) -> None:
    if not 1 <= len(paths) <= MOST_DETECTORS:
        raise SettingsError(
            f"{len(paths)} detectors: name 1 to {MOST_DETECTORS}, runs or files of detectors"
        )
    if pictures is not None and not pictures.is_dir():
        raise SettingsError(f"--pictures {pictures} is no folder; give one with pictures in it")


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


# --- Either -----------------------------------------------------------------------------------


def _told_apart(names: Sequence[str], paths: Sequence[Path]) -> dict[str, Path]:
    """Return the paths by these names, or where two have the same, by themselves."""
    named = {
        str(path) if names.count(name) > 1 else name: path
        for name, path in zip(names, paths, strict=True)
    }
    if len(named) < len(paths):
        raise SettingsError(f"{', '.join(map(str, paths))}: name each only once")
    return named


def _save_figures(illustrations: "Mapping[str, Illustration]", folder: Path) -> None:
    """Write each figure alone."""
    from oddone.report import save_figure  # noqa: PLC0415  (an extra)

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"--figures {folder} cannot be made: {error.strerror}; choose another folder"
        ) from error
    with progress_bar() as progress:
        for place, (name, illustration) in enumerate(illustrations.items(), start=1):
            save_figure(illustration.figure, folder / f"{name}.svg")
            save_figure(illustration.figure, folder / f"{name}.png")
            progress(place, len(illustrations), "figures")
