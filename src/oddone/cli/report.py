"""`oddone report`: all about up to four detectors, or records, on one page to look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import App

from oddone.cli.loading import load_images, open_detector
from oddone.cli.options import REPEATED, digest_of_each, sources_by_name
from oddone.cli.out_file import check_out_file, write_out_file
from oddone.cli.terminal import progress_bar, say
from oddone.detector import Detector
from oddone.errors import SettingsError
from oddone.provenance import stated_estimate
from oddone.report import save_figure
from oddone.report.collect import ReportData, collect_report_data, resize_both_ways
from oddone.report.detector_page import DetectorChapter, render_detector_page
from oddone.report.facts import detector_facts
from oddone.report.figures import (
    Illustration,
    illustrate_artefacts,
    illustrate_detector,
    illustrate_embeddings,
    illustrations_by_name,
)
from oddone.report.record_page import render_record_page
from oddone.report.records import record_chapters
from oddone.training import RunDirectory
from oddone.wording import distinct_names

MAX_DETECTORS = 4
SEED = 0

app = App(name="report")


class RenderedReport(NamedTuple):
    """A page, and its figures by name."""

    page: str
    illustrations: dict[str, Illustration]


@app.default
def report(
    *subjects: Path,
    out: Path,
    test: str | None = None,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    pictures: Path | None = None,
    figures: Path | None = None,
    sha256: Annotated[tuple[str, ...], REPEATED] = (),
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
        A folder of larger pictures, to show what resizing leaves behind in them; for detectors.
    figures
        A folder for each figure alone, as .svg and .png.
    sha256
        The SHA-256 that a detector's file must have, as `sha256sum` prints it; for several
        detectors, one for each in their order.
    """
    _check_outputs(out, figures)
    if any(map(_is_record, subjects)):
        _check_records(
            subjects, {"--test": test, "--ood": ood, "--pictures": pictures, "--sha256": sha256}
        )
        made = _report_on_records(subjects)
    else:
        made = _report_on_detectors(subjects, test, ood, pictures, sha256)
    write_out_file(out, made.page.encode())
    say(f"the page is {out}")
    if figures is not None:
        _save_figures(made.illustrations, figures)
        say(f"the figures are in {figures}")


def _check_outputs(out: Path, figures: Path | None) -> None:
    """Raise before the long work where nothing can be written."""
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


def _report_on_records(paths: Sequence[Path]) -> RenderedReport:
    chapters = record_chapters(paths)
    illustrations = illustrations_by_name([chapter.illustrations for chapter in chapters])
    return RenderedReport(render_record_page(chapters), illustrations)


# --- Detectors --------------------------------------------------------------------------------


def _report_on_detectors(
    paths: Sequence[Path],
    test: str | None,
    ood: tuple[str, ...],
    pictures: Path | None,
    sha256: Sequence[str],
) -> RenderedReport:
    _check_detectors(paths, pictures)
    digests = digest_of_each(sha256, len(paths))
    if test is None:
        raise SettingsError(
            "a detector is reported on by test images of its classes; name them with --test SOURCE"
        )
    names = distinct_names([_name(path) for path in paths], paths)
    sources = sources_by_name(ood)
    detectors = [open_detector(path, digest) for path, digest in zip(paths, digests, strict=True)]
    sizes = {detector.image_size for detector in detectors}
    test_images = {size: load_images(test, size) for size in sizes}
    ood_images = {
        size: {name: load_images(source, size) for name, source in sources.items()}
        for size in sizes
    }
    with progress_bar() as progress:
        collected = [
            collect_report_data(
                name, detector, test_images[size], ood_images[size], seed=SEED, progress=progress
            )
            for name, detector in zip(names, detectors, strict=True)
            for size in [detector.image_size]
        ]
        comparison = list(illustrate_embeddings(collected, SEED, progress))
    chapters = [
        _chapter(report_data, detector, path, pictures)
        for report_data, detector, path in zip(collected, detectors, paths, strict=True)
    ]
    return RenderedReport(
        render_detector_page(chapters, comparison, {"test images": test, **sources}),
        illustrations_by_name([comparison])
        | illustrations_by_name([chapter.illustrations for chapter in chapters]),
    )


def _check_detectors(paths: Sequence[Path], pictures: Path | None) -> None:
    if not 1 <= len(paths) <= MAX_DETECTORS:
        raise SettingsError(
            f"{len(paths)} detectors: name 1 to {MAX_DETECTORS}, runs or files of detectors"
        )
    if pictures is not None and not pictures.is_dir():
        raise SettingsError(f"--pictures {pictures} is no folder; give one with pictures in it")


def _name(path: Path) -> str:
    """Return what a detector is called: its run, where its file has the name of all files."""
    is_run = path.is_dir() or path.name == RunDirectory(path.parent).detector_path.name
    run = path if path.is_dir() else path.parent
    return run.resolve().name if is_run else path.stem


def _chapter(
    report_data: ReportData, detector: Detector, path: Path, pictures: Path | None
) -> DetectorChapter:
    history = list(RunDirectory(path).history())
    illustrations = list(illustrate_detector(report_data, history))
    if pictures is not None:
        illustrations.append(illustrate_artefacts(resize_both_ways(detector, pictures)))
    return DetectorChapter(
        report_data.name,
        report_data.evaluation,
        report_data.seen_in_training,
        illustrations,
        detector_facts(detector, history, report_data.evaluation),
        stated_estimate(detector.provenance),
    )


# --- Files ------------------------------------------------------------------------------------


def _save_figures(illustrations: Mapping[str, Illustration], folder: Path) -> None:
    """Write each figure alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"--figures {folder} cannot be made: {error.strerror}; choose another folder"
        ) from error
    with progress_bar() as progress:
        for done, (name, illustration) in enumerate(illustrations.items(), start=1):
            save_figure(illustration.figure, folder / f"{name}.svg")
            save_figure(illustration.figure, folder / f"{name}.png")
            progress(done, len(illustrations), "figures")
