"""`oddone bench`: reproduce the paper's tables, and show them."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from cyclopts import App
from rich.console import Console

from oddone.bench import (
    TABLES,
    Bench,
    BenchImages,
    Interrupted,
    Record,
    Scale,
    Table,
    as_csv,
    as_markdown,
    cpu_scale,
    find_sets,
    for_terminal,
    paper_scale,
    read_record,
    sample,
    scaling_scale,
    write_record,
)
from oddone.bench.earlier import EarlierRecords
from oddone.bench.record import Filled
from oddone.bench.step_costs import measure_step
from oddone.bench.tables import SCALING, SCALING_MINUTES, scaling
from oddone.cli.loading import load_images
from oddone.cli.options import REPEATED, sources_by_name
from oddone.cli.out_file import check_out_file, write_out_file
from oddone.cli.provenance import provenance_of
from oddone.cli.terminal import counted, note, progress_with_warnings, say
from oddone.cli.training_progress import EXIT_INTERRUPTED, train_with_progress
from oddone.data import ImageSet
from oddone.data.notation import EMBEDDED, SCHEMES
from oddone.device import keep_freed_memory
from oddone.errors import DataError, SettingsError, did_you_mean
from oddone.progress import Progress

MINUTES = 10.0
RECORD_FILES = "*-bench-*.json"  # as oddone bench names them

app = App(name="bench")


@app.default
def bench(
    table: str,
    /,
    *,
    out: Path,
    data: Annotated[tuple[Path, ...], REPEATED] = (),
    scale: Literal["cpu", "paper"] = "cpu",
    minutes: Annotated[tuple[float, ...], REPEATED] = (),
    seeds: int = 1,
    train: bool = True,
    limit: int | None = None,
    ind: str | None = None,
    test: str | None = None,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    outliers: str | None = None,
    earlier: Annotated[tuple[Path, ...], REPEATED] = (),
) -> int:
    """Fill a table of the paper: train every network that it compares, and score images with each.

    Networks are kept in the output folder and shared between rows, tables and commands, so that
    the same command goes on where it stopped. The tables are paper-main, paper-supclr, paper-mcl,
    paper-sei, paper-aux, paper-sei-metrics, paper-mcl-metrics, openood, and scaling, which compares
    methods by the minutes they are given.

    Example: `oddone bench paper-sei --data datasets --out bench --minutes 10`

    Parameters
    ----------
    table
        Which table.
    out
        The folder for networks and records.
    data
        A folder with CIFAR-10 and OOD sets (CIFAR-100, SVHN, and folders or .npz files such as
        lsun_fix, imagenet_fix, textures); may be given several times.
    scale
        A small network for so many minutes, or the paper as printed.
    minutes
        How long each row is trained at the scale cpu, in minutes of two cores; 10 unless set. For
        the table scaling it may be given several times; 1, 2, 5, 10 and 20 unless set.
    seeds
        How often everything is trained; more than once gives a standard deviation.
    train
        Whether to train what is missing; `--no-train` fills the table with what is there.
    limit
        Score so many images of each set, drawn at random, instead of all.
    ind
        Images to train on instead of CIFAR-10, as `oddone data list` names them.
    test
        Test images of the same classes; the test split of the training images unless set.
    ood
        Images of no known class (OOD), as NAME=SOURCE; may be given several times.
    outliers
        Images to train outlier exposure with; its row is left out unless set.
    earlier
        A record of another machine, day or table, whose numbers are taken over where they would be
        measured again; may be given several times.
    """
    asked = BenchOptions(
        data, scale, minutes, seeds, train, limit, ind, test, ood, outliers, earlier
    )
    wanted, size = _find_table(table, minutes), _find_scale(table, scale, minutes)
    if seeds < 1:
        raise SettingsError(f"--seeds {seeds}: train at least once")
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out}: it is a file; name a folder")
    found = find_sets(data)
    source = _choose_source(asked, found.ind)
    images = _load(asked, source, found.oods | sources_by_name(ood))
    try:
        filled = _fill(wanted, out, images, size, source, asked)
    except (Interrupted, KeyboardInterrupt):
        note("stopped; what was trained is kept. Go on with:")
        note(f"  oddone {shlex.join(sys.argv[1:])}")
        note("or add --no-train, to fill the table with what is there")
        return EXIT_INTERRUPTED
    command = _command_to_share(table, asked)
    record = Record.of(wanted, size, seeds, images, filled, command=command)
    path = write_record(out, record)
    Console().print(for_terminal([record]))
    say(f"the record is {path}; oddone bench show {shlex.quote(str(path))} --format html shows it")
    return 0


@app.command
def show(
    *records: Path,
    format: Literal["terminal", "markdown", "csv", "html"] = "terminal",  # noqa: A002
    out: Path | None = None,
) -> None:
    """Show records of `oddone bench`, the paper's numbers beside ours.

    Example: `oddone bench show bench --format html --out tables.html`

    Parameters
    ----------
    records
        Files that `oddone bench` has written, or folders: then all records in them, by name.
    format
        For people in a terminal, for documents, for a spreadsheet, or for a browser: the page
        that `oddone report` makes.
    out
        The file to write, instead of printing.
    """
    if not records:
        raise SettingsError("name a record or a folder of records: oddone bench show RECORD")
    if out is not None:
        check_out_file(out)
    paths = [file for path in records for file in _record_files(path)]
    if format == "terminal" and out is None:
        Console().print(for_terminal([read_record(path) for path in paths]))
        return
    text = _formatted(paths, format)
    if out is None:
        sys.stdout.write(text)
    else:
        write_out_file(out, text.encode())
        say(f"written to {out}")


def _record_files(path: Path) -> list[Path]:
    """Return the records in a folder, sorted by name; a file stands for itself."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(RECORD_FILES))
    if not files:
        raise DataError(
            f"{path} holds no record of oddone bench ({RECORD_FILES}); name another folder, or the "
            f"file of a record"
        )
    return files


def _formatted(paths: Sequence[Path], format_name: str) -> str:
    """Return the records as text for a file or a pipe."""
    if format_name == "html":
        from oddone.report.record_page import render_record_page  # noqa: PLC0415  (an extra)
        from oddone.report.records import record_chapters  # noqa: PLC0415

        return render_record_page(record_chapters(paths))
    records = [read_record(path) for path in paths]
    if format_name == "terminal":
        console = Console(width=200, color_system=None)
        with console.capture() as captured:
            console.print(for_terminal(records))
        return captured.get()
    return as_csv(records) if format_name == "csv" else as_markdown(records)


class BenchOptions(NamedTuple):
    """The options of `oddone bench`; `bench` says what they mean."""

    data: tuple[Path, ...]
    scale: Literal["cpu", "paper"]
    minutes: tuple[float, ...]
    seeds: int
    train: bool
    limit: int | None
    ind: str | None
    test: str | None
    ood: tuple[str, ...]
    outliers: str | None
    earlier: tuple[Path, ...]


# --- What to train, and on which images -------------------------------------------------------


def _find_table(name: str, minutes: tuple[float, ...]) -> Table:
    if name not in TABLES:
        hint = did_you_mean(name, TABLES, otherwise=f"the tables are {', '.join(TABLES)}")
        raise SettingsError(f"there is no table {name!r}; {hint}")
    if name == SCALING.name:
        return scaling(minutes or SCALING_MINUTES)
    if len(minutes) > 1:
        raise SettingsError(
            f"--minutes are given {len(minutes)} times, and {name} takes them once; several are "
            f"for the table {SCALING.name}"
        )
    return TABLES[name]


def _find_scale(table: str, name: str, minutes: tuple[float, ...]) -> Scale:
    if name == "paper" and (minutes or table == SCALING.name):
        raise SettingsError(
            "minutes belong to --scale cpu; the paper's networks train for epochs, so leave "
            "--minutes out and choose another table than scaling"
        )
    if name == "paper":
        return paper_scale()
    if table == SCALING.name:
        return scaling_scale(minutes or SCALING_MINUTES)
    return cpu_scale(*(minutes or (MINUTES,)))


def _choose_source(asked: BenchOptions, cifar10: str | None) -> str:
    """Return the source of the training images: `--ind`, or else CIFAR-10 where it was found."""
    source = asked.ind or cifar10
    if source is None:
        raise DataError(
            "there is no CIFAR-10 to train on; get it with oddone data get cifar10 --to DIR and "
            "add --data DIR, or name other images with --ind SOURCE"
        )
    if asked.test is None and source.endswith(("#train", "#test")):
        raise SettingsError(f"--ind {source} names a split; name the test images with --test too")
    return source


def _load(asked: BenchOptions, source: str, oods: dict[str, str]) -> BenchImages:
    """Return all images, in the size of the training images."""
    training = _load_and_count("training images", source, None)
    side = training.images.shape[-1]
    test = _load_and_count("test images", asked.test or f"{source}#test", side)
    outliers = asked.outliers
    return BenchImages(
        training,
        sample(test, asked.limit),
        {
            name: sample(_load_and_count(name, place, side), asked.limit)
            for name, place in oods.items()
        },
        None if outliers is None else _load_and_count("outliers", outliers, side),
    )


def _load_and_count(name: str, source: str, size: int | None) -> ImageSet:
    images = load_images(source, size)
    note(f"{name}: {counted(len(images), 'image', 'images')} from {source}")
    return images


# --- Filling the table ------------------------------------------------------------------------


def _fill(
    table: Table,
    out: Path,
    images: BenchImages,
    scale: Scale,
    source: str,
    asked: BenchOptions,
) -> Filled:
    """Train and score all that the table needs, with progress bars."""
    earlier = EarlierRecords.read(asked.earlier, table, images)
    keep_freed_memory()  # before a step is measured: it costs less then, as in training
    with _progress_by_step() as (announce, progress):
        return Bench(
            out,
            images,
            scale,
            train_with_progress,
            lambda settings: provenance_of(source, images.training, settings, strict=False),
            announce,
            progress,
            measure_step,
            earlier,
        ).fill(table, asked.seeds, train_missing=asked.train)


@contextmanager
def _progress_by_step() -> Iterator[tuple[Callable[[str], None], Progress]]:
    """Yield two functions: one announces the next step, the other shows its progress in a bar.

    The bar of a step ends when the next one is announced.
    """
    with ExitStack() as step:
        show: Progress = _show_nothing

        def announce(sentence: str) -> None:
            nonlocal show
            step.close()
            note(sentence)
            show = step.enter_context(progress_with_warnings())

        def progress(done: int, total: int, what: str) -> None:
            show(done, total, what)

        yield announce, progress


def _show_nothing(_done: int, _total: int, _what: str) -> None:
    """Show no progress."""


# --- The command in the record ----------------------------------------------------------------


def _command_to_share(table: str, asked: BenchOptions) -> str:
    """Return the command with DIR for every folder; options that were not given are left out."""
    options: dict[str, list[object]] = {
        "--data": ["DIR"] * len(asked.data),
        "--out": ["DIR"],
        "--scale": [asked.scale],
        "--minutes": list(asked.minutes),
        "--seeds": [asked.seeds],
        "--limit": [asked.limit],
        "--ind": [_without_folder(asked.ind)],
        "--test": [_without_folder(asked.test)],
        "--ood": [_without_folder(source) for source in asked.ood],
        "--outliers": [_without_folder(asked.outliers)],
        "--earlier": ["RECORD"] * len(asked.earlier),
    }
    words = [
        str(word)
        for option, values in options.items()
        for value in values
        if value is not None
        for word in (option, value)
    ]
    words += [] if asked.train else ["--no-train"]
    return shlex.join(["oddone", "bench", table, *words])


def _without_folder(source: str | None) -> str | None:
    """Return a source, or NAME=SOURCE, with DIR for its folder."""
    if source is None:
        return None
    name, equals, place = source.rpartition("=")
    place, mark, split = place.partition("#")
    scheme = place.partition(":")[0]
    if scheme not in EMBEDDED:
        place = f"{scheme}:DIR" if scheme in SCHEMES else "DIR"
    return f"{name}{equals}{place}{mark}{split}"
