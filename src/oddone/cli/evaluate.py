"""`oddone evaluate`: metrics of a detector, as a table and as files."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import App
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oddone.cli.loading import load_images, open_detector
from oddone.cli.options import REPEATED, sources_by_name
from oddone.cli.out_file import check_out_file, os_errors_explained
from oddone.cli.terminal import counted, progress_with_warnings, say
from oddone.evaluation import (
    AverageResult,
    Evaluation,
    OODResult,
    as_json,
    as_openood_csv,
    check_averages,
    evaluate as evaluate_detector,
)
from oddone.files import write_atomic, write_json

ENDINGS = (".json", ".csv")

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
        A file for the result: .json, or .csv as OpenOOD writes it. May be given several times.
    """
    sources = sources_by_name(ood)
    averages = {name: members for name, members in (("near", near), ("far", far)) if members}
    check_averages(averages, sources)
    for path in out:
        check_out_file(path, ENDINGS)
    opened = open_detector(detector)
    known = load_images(source, opened.image_size)
    oods = {name: load_images(notation, opened.image_size) for name, notation in sources.items()}
    with progress_with_warnings() as progress:
        evaluation = evaluate_detector(opened, known, oods, averages=averages, progress=progress)
    _show(evaluation, detector)
    for path in out:
        _write(evaluation, path)
        say(f"the result is {path}")


def _write(evaluation: Evaluation, path: Path) -> None:
    with os_errors_explained(path):
        if path.suffix.lower() == ".json":
            write_json(path, as_json(evaluation))
        else:
            write_atomic(path, as_openood_csv(evaluation).encode())


def _show(evaluation: Evaluation, detector: Path) -> None:
    images = counted(evaluation.images, "test image", "test images")
    if evaluation.accuracy is None:
        say(f"{images} without labels, so there is no accuracy")
    else:
        say(f"{evaluation.accuracy:.2%} of {images} get their label")
    if evaluation.false_alarms is None:
        where = shlex.quote(str(detector))
        say(f"nothing is called anomalous before oddone calibrate {where} SOURCE sets a threshold")
    else:
        say(f"{evaluation.false_alarms:.2%} of them are called anomalous: false alarms")
    if evaluation.oods:
        Console().print(_table(evaluation))


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
    return ["" if share is None else f"{share:.2%}" for share in shares]
