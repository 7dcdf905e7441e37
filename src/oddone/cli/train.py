"""`oddone train`: from a labelled source to an encoder in a run directory."""

import difflib
import platform
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, ArgumentCollection, Parameter
from cyclopts.config import Dict
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from oddone.cli.terminal import bar, counted, list_broken, say
from oddone.data import ImageSet, load
from oddone.errors import DataError, SettingsError, SettingsWarning
from oddone.presets import PRESETS
from oddone.training import Outcome, Report, RunDirectory, Training, train as train_encoder
from oddone.training.loop import build_network, check_source
from oddone.training.settings_file import as_tables, read_tables

INTERRUPTED = 130
CPU = PRESETS["cpu"]()
GO_WITH_RESUME = ("--resume", "--tensorboard", "--debug")
LENGTHS = ("epochs", "steps", "minutes")


def layers(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill in what the flags leave open: first from --config FILE, then from --preset NAME."""
    flags = {argument.name: [token.value for token in argument.tokens] for argument in arguments}
    unheard = [name for name, given in flags.items() if given and name not in GO_WITH_RESUME]
    if flags["--resume"] and unheard:
        raise SettingsError(
            f"--resume goes on as the run began, so {', '.join(unheard)} would change nothing; "
            f"leave it away, or begin another run with --config RUN/settings.toml"
        )
    preset = flags["--preset"][0] if flags["--preset"] else "cpu"
    if preset not in PRESETS:
        near = difflib.get_close_matches(preset, PRESETS, n=1) or list(PRESETS)
        raise SettingsError(f"--preset {preset}: there is no such preset; try {near[0]!r}")
    sources = [(config, read_tables(Path(config))) for config in flags["--config"]]
    sources.append((f"preset {preset}", as_tables(PRESETS[preset]())))
    length_is_set = any(flags[f"--{length}"] for length in LENGTHS)
    for source, tables in sources:
        # A run has one length: the flags' comes first, then the file's, then the preset's.
        dropped = LENGTHS if length_is_set else ()
        kept = {key: value for key, value in tables.items() if key not in dropped}
        length_is_set |= any(length in kept for length in LENGTHS)
        Dict(kept, use_commands_as_keys=False, source=source)(app, commands, arguments)


app = App(name="train", config=layers)


@app.default
def train(
    source: str | None = None,
    /,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    strict: Annotated[bool, Parameter(negative=())] = False,
    preset: str = "cpu",  # noqa: ARG001  (`layers` reads it)
    config: Path | None = None,  # noqa: ARG001  (`layers` reads it)
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    settings: Annotated[Training, Parameter(name="*")] = CPU,
) -> int:
    """Train an encoder on labelled images.

    Examples: `oddone train fashion --preset smoke --out run`, `oddone train photos/ --out run
    --minutes 30 --loss.alpha 0.1`, `oddone train --resume run`.

    Parameters
    ----------
    source
        Labelled images: a folder with one folder per class, or a notation of `oddone data list`.
    out
        The run directory to make.
    resume
        The run directory to go on with; its own settings hold.
    overwrite
        Replace the run directory if it exists.
    strict
        Stop at the first image file that cannot be read, instead of leaving it out.
    preset
        Where settings start from: cpu, paper, authors or smoke.
    config
        A TOML file with settings, such as the settings.toml of another run.
    tensorboard
        Write the history for TensorBoard too.
    """
    if resume is not None:
        run = RunDirectory.open(resume)
        settings = run.settings
        began = run.provenance["data"]
        images = _load(began["source"], began["size"], strict=began["strict"])
        if images.fingerprint != began["fingerprint"]:
            raise DataError(
                f"the images of {began['source']} have changed since {resume} began; "
                f"train anew with another --out"
            )
    else:
        if source is None or out is None:
            raise SettingsError(
                "say what to train on and where to: oddone train SOURCE --out RUN (or --resume RUN)"
            )
        images = _load(source, settings.model.image_size, strict=strict)
        check_source(images, settings)
        build_network(images, settings)  # an encoder that cannot be built leaves no run behind
        provenance = _provenance(source, images, settings, strict=strict)
        run = RunDirectory.create(out, settings, provenance, overwrite=overwrite)
    writer = _tensorboard_writer(run) if tensorboard else None
    return _conclude(_train_watched(images, settings, run, writer), run)


def _load(source: str, size: int | None, *, strict: bool) -> ImageSet:
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        images = load(source, size=size, strict=strict, progress=progress)
    height, width = images.images.shape[2:]
    say(
        f"{counted(len(images), 'image', 'images')} of {height} x {width} pixels in "
        f"{counted(len(images.classes), 'class', 'classes')} from {source}"
    )
    list_broken(images.broken)
    return images


def _train_watched(images: ImageSet, settings: Training, run: RunDirectory, writer: Any) -> Outcome:
    columns = (
        BarColumn(bar_width=10),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[eta]} left"),
        TextColumn("{task.fields[status]}"),
    )
    console = Console(stderr=True)
    with (
        _interrupts() as interrupted,
        _advice(console),
        Progress(*columns, console=console) as shown,
    ):
        task = shown.add_task("training", total=1.0, status="", eta="?")
        rate = _Rate()

        def watch(report: Report) -> None:
            speed, left = rate.after(report)
            terms = "".join(f" {name} {value:.2f}" for name, value in report.terms.items())
            unpaired = f" unpaired {report.unpaired:.0%}" if report.unpaired else ""
            status = (
                f"step {report.step} loss {report.loss:.2f}{terms} "
                f"lr {report.learning_rate:.1g} {speed:.0f} rows/s{unpaired}"
            )
            shown.update(task, completed=report.share, status=status, eta=left)
            if writer is not None:
                _write_scalars(writer, report)

        return train_encoder(images, settings, run, watch=watch, stop=interrupted)


class _Rate:
    """How fast a run goes, smoothed, and how long it still takes."""

    def __init__(self) -> None:
        self.last: Report | None = None
        self.rows_per_second = 0.0
        self.share_per_second = 0.0

    def after(self, report: Report) -> tuple[float, str]:
        if self.last is not None and report.seconds > self.last.seconds:
            took = report.seconds - self.last.seconds
            self.rows_per_second = self._smooth(self.rows_per_second, report.rows / took)
            done = (report.share - self.last.share) / took
            self.share_per_second = self._smooth(self.share_per_second, done)
        self.last = report
        if self.share_per_second <= 0:
            return self.rows_per_second, "?"
        seconds = round((1 - report.share) / self.share_per_second)
        return self.rows_per_second, f"{seconds // 60}:{seconds % 60:02d}"

    @staticmethod
    def _smooth(old: float, new: float) -> float:
        return new if old == 0 else 0.95 * old + 0.05 * new


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a wish to stop after the step; a second Ctrl-C stops at once."""
    wished = False

    def wish(number: int, frame: object) -> None:  # noqa: ARG001
        nonlocal wished
        if wished:
            raise KeyboardInterrupt
        wished = True

    before = {number: signal.signal(number, wish) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: wished
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _advice(console: Console) -> Iterator[None]:
    """Show warnings as one line of advice, above the progress bar."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SettingsWarning)
        show = warnings.showwarning

        def advise(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, SettingsWarning):
                return show(message, category, *place)
            return console.print(Text(f"note: {message}", style="yellow"), soft_wrap=True)

        warnings.showwarning = advise  # type: ignore[assignment]
        yield


def _conclude(outcome: Outcome, run: RunDirectory) -> int:
    if not outcome.finished:
        say(f"stopped after step {outcome.step:,}; nothing is lost. Go on with:")
        say(f"  oddone train --resume {shlex.quote(str(run.path))}")
        return INTERRUPTED
    lines = list(run.history())
    say(
        f"done: {outcome.step:,} steps in {outcome.seconds / 60:.1f} minutes, loss "
        f"{lines[0]['loss']:.3f} -> {lines[-1]['loss']:.3f}; the encoder is {run.encoder}"
    )
    return 0


def _provenance(
    source: str, images: ImageSet, settings: Training, *, strict: bool
) -> dict[str, Any]:
    packages = ("oddone", "torch", "numpy", "pillow", "safetensors")
    return {
        "command": ["oddone", *sys.argv[1:]],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in packages},
        "platform": platform.platform(),
        "data": {
            "source": source,
            "size": settings.model.image_size,
            "strict": strict,
            "images": len(images),
            "classes": list(images.classes),
            "fingerprint": images.fingerprint,
            "broken": [list(broken) for broken in images.broken],
        },
    }


def _tensorboard_writer(run: RunDirectory) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            "--tensorboard needs a package that is not here: pip install 'oddone[tensorboard]'"
        ) from error
    return SummaryWriter(str(run.path / "tensorboard"))


def _write_scalars(writer: Any, report: Report) -> None:
    scalars = {"loss": report.loss, "learning rate": report.learning_rate, **report.terms}
    for name, value in scalars.items():
        writer.add_scalar(name, value, report.step)
