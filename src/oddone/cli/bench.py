"""`oddone bench`: the paper's tables, filled again, and shown."""

import difflib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from oddone.bench import (
    TABLES,
    Bench,
    Record,
    Scale,
    Sets,
    Stopped,
    Table,
    as_csv,
    as_markdown,
    cpu_scale,
    find_sets,
    for_terminal,
    paper_scale,
    read_record,
    sample,
    write_record,
)
from oddone.cli.runs import provenance_of, train_watched
from oddone.cli.sources import REPEATED, load_watched, sources_by_name
from oddone.cli.terminal import bar, counted, note, say, show_warnings
from oddone.data import ImageSet
from oddone.data.notation import EMBEDDED, SCHEMES
from oddone.errors import DataError, SettingsError
from oddone.files import write_atomic
from oddone.progress import Progress

INTERRUPTED = 130
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
    minutes: float | None = None,
    seeds: int = 1,
    limit: int | None = None,
    ind: str | None = None,
    test: str | None = None,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    outliers: str | None = None,
) -> int:
    """Fill a table of the paper: train every network it compares, and let each judge the images.

    Networks are kept in the output folder and shared between rows, tables and calls, so that the
    same command goes on where it stopped. The tables are paper-main, paper-supclr, paper-mcl,
    paper-sei, paper-aux, paper-sei-metrics, paper-mcl-metrics and openood.

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
        How long each row is trained at the scale cpu; 10 unless set.
    seeds
        How often all is trained; more than once gives a spread.
    limit
        Judge so many images of each set, drawn at random, instead of all.
    ind
        Images to train on instead of CIFAR-10, as `oddone data list` names them.
    test
        Test images of the same classes; the test split of the training images unless set.
    ood
        Images to find odd, as NAME=SOURCE; may be given several times.
    outliers
        Images to train outlier exposure with; its row is left out unless set.
    """
    wanted, size = _table(table), _scale(scale, minutes)
    if seeds < 1:
        raise SettingsError(f"--seeds {seeds}: train at least once")
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out}: it is a file; name a folder")
    found = find_sets(data)
    source = ind or found.ind
    if source is None:
        raise DataError(
            "there is no CIFAR-10 to train on; get it with oddone data get cifar10 --to DIR and "
            "add --data DIR, or name other images with --ind SOURCE"
        )
    sets = _load(source, test, found.oods | sources_by_name(ood), outliers, limit)
    try:
        with _watched() as (announce, progress):
            filled = Bench(
                out,
                sets,
                size,
                train_watched,
                lambda settings: provenance_of(source, sets.training, settings, strict=False),
                announce,
                progress,
            ).fill(wanted, seeds)
    except (Stopped, KeyboardInterrupt):
        note("stopped; what was trained is kept. Go on with:")
        note(f"  oddone {shlex.join(sys.argv[1:])}")
        return INTERRUPTED
    command = _command(
        table,
        {
            "--data": ["DIR"] * len(data),
            "--out": ["DIR"],
            "--scale": [scale],
            "--minutes": [minutes],
            "--seeds": [seeds],
            "--limit": [limit],
            "--ind": [_without_folder(ind)],
            "--test": [_without_folder(test)],
            "--ood": map(_without_folder, ood),
            "--outliers": [_without_folder(outliers)],
        },
    )
    record = Record.of(wanted, size, seeds, sets, filled, command=command)
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
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise SettingsError(f"--out {out}: name a file in a folder that exists")
    paths = [file for path in records for file in _record_files(path)]
    if format == "terminal" and out is None:
        Console().print(for_terminal([read_record(path) for path in paths]))
        return
    text = _formatted(paths, format)
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomic(out, text.encode())
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


@contextmanager
def _watched() -> Iterator[tuple[Callable[[str], None], Progress]]:
    """Yield whom to tell sentences and progress; a bar ends before the next sentence."""
    with ExitStack() as stack:
        shown: Progress = _unseen

        def announce(sentence: str) -> None:
            nonlocal shown
            stack.close()
            note(sentence)
            stack.enter_context(show_warnings(Console(stderr=True)))
            shown = stack.enter_context(bar(MofNCompleteColumn(), TimeRemainingColumn()))

        def progress(done: int, total: int, what: str) -> None:
            shown(done, total, what)

        yield announce, progress


def _unseen(_done: int, _total: int, _what: str) -> None:
    """Show no progress."""


def _table(name: str) -> Table:
    if name not in TABLES:
        near = difflib.get_close_matches(name, TABLES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the tables are {', '.join(TABLES)}"
        raise SettingsError(f"there is no table {name!r}; {hint}")
    return TABLES[name]


def _scale(name: str, minutes: float | None) -> Scale:
    if name == "cpu":
        return cpu_scale(MINUTES if minutes is None else minutes)
    if minutes is not None:
        raise SettingsError(
            "--minutes belong to --scale cpu; the paper's networks train for epochs, so leave "
            "--minutes out"
        )
    return paper_scale()


def _load(
    source: str,
    test: str | None,
    oods: Mapping[str, str],
    outliers: str | None,
    limit: int | None,
) -> Sets:
    """Return all images, in the size of those to train on."""
    if test is None and source.endswith(("#train", "#test")):
        raise SettingsError(f"--ind {source} names a split; name the test images with --test too")
    training = _loaded("training images", source, None)
    side = training.images.shape[-1]
    return Sets(
        training,
        sample(_loaded("test images", test or f"{source}#test", side), limit),
        {name: sample(_loaded(name, place, side), limit) for name, place in oods.items()},
        None if outliers is None else _loaded("outliers", outliers, side),
    )


def _loaded(name: str, source: str, side: int | None) -> ImageSet:
    images = load_watched(source, side)
    note(f"{name}: {counted(len(images), 'image', 'images')} from {source}")
    return images


def _command(table: str, options: Mapping[str, Iterable[object]]) -> str:
    """Return the command as others could give it; what was not given is left out."""
    words = [
        str(word)
        for option, values in options.items()
        for value in values
        if value is not None
        for word in (option, value)
    ]
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
