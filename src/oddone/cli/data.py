"""`oddone data`: list, describe, download and prepare images."""

# ruff: noqa: PLC0415  # a command imports what it needs, so that `--help` is fast

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import DownloadColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from oddone.cli.terminal import (
    counted,
    describe_left_out,
    list_broken,
    printable,
    progress_bar,
    progress_with_warnings,
    say,
    say_about_files,
)

if TYPE_CHECKING:
    from oddone.data.image_set import ImageSet

app = App(name="data", help="List, describe, download and prepare images.")


@app.command(name="list")
def list_sources() -> None:
    """List how to name images, for every command that takes a SOURCE.

    Example: `oddone data list`
    """
    from oddone.data.notation import describe_sources

    table = Table("source", "what it is", box=None, pad_edge=False)
    for notation, meaning in describe_sources():
        table.add_row(Text(notation), Text(meaning))
    Console().print(table)


@app.command
def info(
    source: Annotated[str, Parameter(help="What 'oddone data list' lists.")],
    /,
    *,
    size: Annotated[int | None, Parameter(help="Side in pixels to resize the images to.")] = None,
) -> None:
    """Describe images: how many there are, of which size and classes, and what is not used.

    Example: `oddone data info fashion:known`
    """
    from oddone.data.notation import load

    with progress_with_warnings() as progress:
        image_set = load(source, size=size, progress=progress)
    height, width = image_set.images.shape[2:]
    images = counted(len(image_set), "image", "images")
    classes = counted(len(image_set.classes), "class", "classes")
    say(
        f"{images} of {height} x {width} pixels, {classes if image_set.classes else 'no labels'}, "
        f"fingerprint {image_set.fingerprint}"
    )
    if image_set.classes:
        Console().print(_class_table(image_set))
    say_about_files(image_set)


@app.command
def get(
    name: Annotated[Literal["cifar10", "cifar100", "svhn"], Parameter(help="Which dataset.")],
    /,
    *,
    to: Annotated[Path | None, Parameter(help="Folder to put it into; ./NAME unless set.")] = None,
) -> None:
    """Download a dataset from its authors, unless it is there and whole.

    Example: `oddone data get cifar10 --to datasets`
    """
    from oddone.data.download import get as download

    folder = Path(name) if to is None else to
    columns = (DownloadColumn(), TransferSpeedColumn())
    with progress_bar(*columns, after_seconds=0.0) as progress:
        paths = download(name, folder, progress=progress)
    for path in paths:
        say(f"{path} is there and whole")
    say(f"Next: oddone train {shlex.quote(f'{name}:{folder}')}")


@app.command
def fix(
    folder: Annotated[Path, Parameter(help="Pictures of any size, in any subfolders.")],
    out: Annotated[Path, Parameter(help="New folder for the small ones.")],
    /,
    *,
    count: Annotated[int | None, Parameter(help="How many to draw; all unless set.")] = None,
    seed: Annotated[int, Parameter(help="Which ones are drawn.")] = 0,
    aliased: Annotated[
        bool,
        Parameter(negative=(), help="Drop pixels instead, which leaves jagged edges."),
    ] = False,
) -> None:
    """Shrink pictures to 32 x 32 without artefacts, as in the paper's LSUN(F) and ImageNet(F).

    Example: `oddone data fix photos photos-fixed --count 10000`
    """
    from oddone.data.fix import fix_images

    with progress_bar() as progress:
        fixed = fix_images(folder, out, count=count, seed=seed, aliased=aliased, progress=progress)
    say(f"{counted(fixed.written, 'picture', 'pictures')} in {out}")
    list_broken(fixed.broken)
    if fixed.left_out:
        say(describe_left_out(fixed.left_out))


@app.command
def clean() -> None:
    """Delete the cache of decoded folders and features; they are made again when they are needed.

    Example: `oddone data clean`
    """
    from oddone.data.cache import clean_cache

    entries, features, size = clean_cache()
    say(
        f"{counted(entries, 'decoded folder', 'decoded folders')} and "
        f"{counted(features, 'file', 'files')} of features deleted, {size / 1e6:,.1f} MB freed"
    )


def _class_table(image_set: "ImageSet") -> Table:
    import numpy as np

    labels = image_set.labels
    counts = np.bincount(labels[labels >= 0], minlength=len(image_set.classes)).tolist()
    table = Table("label", "class name", "images", box=None, pad_edge=False)
    table.columns[0].justify = table.columns[2].justify = "right"
    for label, (name, count) in enumerate(zip(image_set.classes, counts, strict=True)):
        table.add_row(str(label), Text(printable(name)), f"{count:,}")
    unlabelled = int((labels < 0).sum())
    if unlabelled:
        table.add_row("", Text("(no label)"), f"{unlabelled:,}")
    return table
