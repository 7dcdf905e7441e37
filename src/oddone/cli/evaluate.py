"""`oddone evaluate`: metrics of a detector, of all images and by class, as tables and files."""

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import App
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oddone.cli.loading import load_images, open_detector
from oddone.cli.options import REPEATED, sources_by_name
from oddone.cli.out_file import check_out_file, os_errors_explained, write_out_file
from oddone.cli.terminal import counted, printable, progress_with_warnings, say
from oddone.errors import SettingsError
from oddone.evaluation import (
    AverageResult,
    Evaluation,
    OODClassResult,
    OODResult,
    as_class_csv,
    as_json,
    as_openood_csv,
    check_averages,
    evaluate as evaluate_detector,
    worst_classes,
    worst_ood_classes,
)
from oddone.files import write_json
from oddone.provenance import stated_estimate
from oddone.wording import describe_estimate

ENDINGS = (".json", ".csv")
CLASSES_SHOWN = 10

app = App(name="evaluate")


@app.default
def evaluate(
    detector: Path,
    source: str,
    /,
    *,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    near: Annotated[tuple[str, ...], REPEATED] = (),
    far: Annotated[tuple[str, ...], REPEATED] = (),
    out: Annotated[tuple[Path, ...], REPEATED] = (),
    sha256: str | None = None,
) -> None:
    """Measure a detector on new images of its classes, and on images of no known class.

    Example: `oddone evaluate run fashion:known#test --ood unseen=fashion:unseen#test`

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    source
        Test images of the known classes, as `oddone data list` names them. With labels there is
        an accuracy.
    ood
        Images of no known class (OOD), as NAME=SOURCE; may be given several times.
    near
        The NAME of an OOD set that resembles the known classes; the mean of these is shown.
    far
        The NAME of an OOD set that does not; the mean of these is shown.
    out
        A file for the result: .json, or .csv as OpenOOD writes it, and beside that a second one,
        NAME-classes.csv, with a row for each class. May be given several times.
    sha256
        The SHA-256 that the detector's file must have, as `sha256sum` prints it.
    """
    sources = sources_by_name(ood)
    averages = {name: members for name, members in (("near", near), ("far", far)) if members}
    check_averages(averages, sources)
    _check_out_files(out)
    opened = open_detector(detector, sha256)
    known = load_images(source, opened.image_size)
    oods = {name: load_images(notation, opened.image_size) for name, notation in sources.items()}
    with progress_with_warnings() as progress:
        evaluation = evaluate_detector(opened, known, oods, averages=averages, progress=progress)
    with ExitStack() as stack:  # a pipe that is closed, or one file that fails, costs no other file
        for path in reversed(out):
            stack.callback(_write, evaluation, path)
        _show(evaluation, detector, opened.classes)
        estimate = stated_estimate(opened.provenance)
        if estimate is not None:
            say(f"To expect on things it has never seen: {describe_estimate(estimate)}")


def _check_out_files(out: tuple[Path, ...]) -> None:
    """Raise before the long work where a file cannot be written, or would be written twice."""
    for path in out:
        check_out_file(path, ENDINGS)
    beside = [_beside(path) for path in out if _is_csv(path)]
    for path in beside:
        check_out_file(path)
    twice = [path for path in (*out, *beside) if (*out, *beside).count(path) > 1]
    if twice:
        raise SettingsError(f"--out: {twice[0]} would be written twice; name other files")


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _beside(path: Path) -> Path:
    """Return the file for the classes, beside a CSV file that is as OpenOOD writes it."""
    return path.with_stem(f"{path.stem}-classes")


def _write(evaluation: Evaluation, path: Path) -> None:
    if not _is_csv(path):
        with os_errors_explained(path):
            write_json(path, as_json(evaluation))
        say(f"the result is {path}")
        return
    classes = _beside(path)
    # The name of a class need not be Unicode; what is not is written as an escape sequence.
    write_out_file(path, as_openood_csv(evaluation).encode(errors="backslashreplace"))
    write_out_file(classes, as_class_csv(evaluation).encode(errors="backslashreplace"))
    say(f"the result is {path}, and class by class {classes}")


def _show(evaluation: Evaluation, detector: Path, classes: tuple[str, ...]) -> None:
    images = counted(evaluation.images, "test image", "test images")
    if len(classes) == 1:
        say(f"{images}; with one class every image gets the label {classes[0]}")
    elif evaluation.accuracy is None:
        say(f"{images} without labels, so there is no accuracy")
    else:
        say(f"{evaluation.accuracy:.2%} of {images} get their label")
    if evaluation.false_alarms is None:
        where = shlex.quote(str(detector))
        say(f"nothing is called anomalous before oddone calibrate {where} SOURCE sets a threshold")
    else:
        say(f"{evaluation.false_alarms:.2%} of them are called anomalous: false alarms")
    console = Console()
    if evaluation.classes:
        console.print("", _class_table(evaluation), sep="\n")
    if evaluation.oods:
        tables = ("", _table(evaluation), "", _ood_class_table(evaluation))
        console.print(*tables, sep="\n")


def _class_table(evaluation: Evaluation) -> Table:
    """Return the numbers of the classes with most mistakes."""
    headings = ("images", "recall", "precision", "false alarms")
    ranked = worst_classes(evaluation)
    table = _new_table("the worst classes", headings, len(ranked))
    for name, (images, *shares) in ranked[:CLASSES_SHOWN]:
        table.add_row(Text(printable(name)), f"{images:,}", *map(_percent, shares))
    return table


def _ood_class_table(evaluation: Evaluation) -> Table:
    """Return the numbers of the OOD classes with the lowest AUROC."""
    headings = ("images", "detected", "AUROC", "looks most like")
    ranked = worst_ood_classes(evaluation)
    table = _new_table("the hardest OOD classes", headings, len(ranked))
    for name, result in ranked[:CLASSES_SHOWN]:
        shares = map(_percent, (result.detected, result.auroc))
        table.add_row(Text(printable(name)), f"{result.images:,}", *shares, _most_like(result))
    return table


def _new_table(first: str, headings: tuple[str, ...], classes: int) -> Table:
    """Return a table with a line below that says how many classes it leaves out."""
    table = Table(first, box=None, pad_edge=False, caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    if classes > CLASSES_SHOWN:
        table.caption = f"and {classes - CLASSES_SHOWN:,} more: --out FILE has all"
    return table


def _most_like(result: OODClassResult) -> Text:
    name, share = result.most_like or ("", 0.0)
    return Text(f"{printable(name)} {share:.0%}")


def _table(evaluation: Evaluation) -> Table:
    table = Table("OOD set", box=None, pad_edge=False)
    for heading in (
        "images",
        "detected",
        "AUROC",
        "FPR at 95%\nIND accepted",
        "FPR at 95%\nOOD detected",
        "AUPR\nin",
        "AUPR\nout",
    ):
        table.add_column(heading, justify="right")
    for name, ood in evaluation.oods.items():
        table.add_row(Text(name), f"{ood.images:,}", *_shares(ood))
    for name, average in evaluation.averages.items():
        table.add_row(Text(f"mean of {name}"), "", *_shares(average), style="bold")
    return table


def _shares(result: OODResult | AverageResult) -> list[str]:
    m = result.metrics
    shares = (result.detected, m.auroc, m.fpr_at_95_ind, m.fpr_at_95_ood, m.aupr_in, m.aupr_out)
    return [_percent(share) for share in shares]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"
