"""`oddone train`: from a labelled source to an encoder in a run directory."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, ArgumentCollection, Parameter
from cyclopts.config import Dict

from oddone.cli.detectors import describe_threshold, file_of
from oddone.cli.runs import (
    described,
    finish_detector,
    identified,
    provenance_of,
    train_watched,
)
from oddone.cli.sources import load_watched
from oddone.cli.terminal import counted, say
from oddone.cli.whole_numbers import check_whole_numbers
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.errors import DataError, SettingsError, did_you_mean
from oddone.presets import PRESETS
from oddone.training import (
    Outcome,
    Report,
    RunDirectory,
    TrainedNetwork,
    TrainSettings,
    load_network,
)
from oddone.training.checkpoint import newest_checkpoint
from oddone.training.loop import build_network
from oddone.training.settings_file import read_toml, to_dict
from oddone.training.trainable import check_outliers, check_source

INTERRUPTED = 130
CPU = PRESETS["cpu"]()
GO_WITH_RESUME = ("--resume", "--tensorboard", "--debug")
LENGTHS = ("epochs", "steps", "minutes")


def resolve_settings(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
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
        hint = did_you_mean(preset, PRESETS, otherwise=f"the presets are {', '.join(PRESETS)}")
        raise SettingsError(f"--preset {preset}: there is no such preset; {hint}")
    sources = [(config, read_toml(Path(config))) for config in flags["--config"]]
    sources.append((f"preset {preset}", to_dict(PRESETS[preset]())))
    length_is_set = any(flags[f"--{length}"] for length in LENGTHS)
    for source, tables in sources:
        # A run has one length: the flags' comes first, then the file's, then the preset's.
        dropped = LENGTHS if length_is_set else ()
        kept = {key: value for key, value in tables.items() if key not in dropped}
        length_is_set |= any(length in kept for length in LENGTHS)
        Dict(kept, use_commands_as_keys=False, source=source)(app, commands, arguments)


app = App(name="train", config=(check_whole_numbers, resolve_settings))


@app.default
def train(
    source: str | None = None,
    /,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    start: Path | None = None,
    outliers: str | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    strict: Annotated[bool, Parameter(negative=())] = False,
    preset: str = "cpu",  # noqa: ARG001  (`layers` reads it)
    config: Path | None = None,  # noqa: ARG001  (`layers` reads it)
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    settings: Annotated[TrainSettings, Parameter(name="*")] = CPU,
) -> int:
    """Train a detector on labelled images: the encoder, its Gaussians, and a calibrated threshold.

    Examples: `oddone train fashion --preset smoke --out run`, `oddone train photos/ --out run
    --minutes 30 --loss.alpha 0.1`, `oddone train --resume run`, `oddone train photos/ --out tuned
    --start run --objective cross-entropy`.

    Parameters
    ----------
    source
        Labelled images: a folder with one folder per class, or a notation of `oddone data list`.
    out
        The run directory to make.
    resume
        The run directory to go on with; its own settings hold.
    start
        A finished run, or its encoder.safetensors: begin with the weights of that encoder.
    outliers
        Images of no class, named like SOURCE, for cross-entropy to be undecided about.
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
        settings, given = run.settings, _loaded_again(run)
    else:
        if source is None or out is None:
            raise SettingsError(
                "say what to train on and where to: oddone train SOURCE --out RUN (or --resume RUN)"
            )
        given, provenance = _loaded(source, outliers, start, settings, strict=strict)
        run = RunDirectory.create(out, settings, provenance, overwrite=overwrite)
    watch = _scalars_to(run) if tensorboard else None
    outcome = train_watched(
        given.images, settings, run, watch, start=given.start, outliers=given.outliers
    )
    if not outcome.finished:
        say(f"stopped after step {outcome.step:,}; nothing is lost. Go on with:")
        say(f"  oddone train --resume {shlex.quote(str(run.path))}")
        return INTERRUPTED
    _say_what_was_learned(outcome, run)
    if given.images.classes:
        _say_what_is_next(finish_detector(run, given.images), run)
    else:
        say("without labels there are no classes to measure distances to, so there is no detector")
    return 0


class _Given(NamedTuple):
    """What a run learns from."""

    images: ImageSet
    outliers: ImageSet | None
    start: TrainedNetwork | None


def _loaded(
    source: str, outliers: str | None, start: Path | None, settings: TrainSettings, *, strict: bool
) -> tuple[_Given, dict[str, Any]]:
    """Return what a new run learns from, and its provenance; what makes no run is an error."""
    images = _load(source, settings.model.image_size, strict=strict)
    check_source(images, settings)
    provenance = provenance_of(source, images, settings, strict=strict)
    odd, trained = None, None
    if outliers is not None:
        size = images.images.shape[-1]
        odd = _load(outliers, size, strict=strict)
        check_outliers(odd, images, settings)
        provenance["outliers"] = described(outliers, odd, size=size, strict=strict)
    if start is not None:
        encoder = file_of("encoder", start)
        trained = load_network(encoder)
        provenance["start"] = identified(encoder)
    build_network(images, settings, start=trained)  # one that cannot be built leaves no run behind
    return _Given(images, odd, trained), provenance


def _loaded_again(run: RunDirectory) -> _Given:
    """Return what a run began with; the weights it started from are in its checkpoints."""
    provenance = run.provenance
    if "start" in provenance and newest_checkpoint(run.checkpoints) is None:
        raise DataError(
            f"{run.path} was stopped before it had the weights of {provenance['start']['encoder']}"
            f"; begin it again, with --overwrite"
        )
    images = _load_unchanged(provenance["data"], run)
    began = provenance.get("outliers")
    return _Given(images, None if began is None else _load_unchanged(began, run), None)


def _load_unchanged(began: dict[str, Any], run: RunDirectory) -> ImageSet:
    images = _load(began["source"], began["size"], strict=began["strict"])
    if images.fingerprint != began["fingerprint"]:
        raise DataError(
            f"the images of {began['source']} have changed since {run.path} began; "
            f"train anew with another --out"
        )
    return images


def _load(source: str, size: int | None, *, strict: bool) -> ImageSet:
    images = load_watched(source, size, strict=strict)
    height, width = images.images.shape[2:]
    say(
        f"{counted(len(images), 'image', 'images')} of {height} x {width} pixels in "
        f"{counted(len(images.classes), 'class', 'classes')} from {source}"
    )
    return images


def _say_what_was_learned(outcome: Outcome, run: RunDirectory) -> None:
    lines = list(run.history())
    say(
        f"done: {outcome.step:,} steps in {outcome.seconds / 60:.1f} minutes, loss "
        f"{lines[0]['loss']:.3f} -> {lines[-1]['loss']:.3f}; the encoder is {run.encoder}"
    )


def _say_what_is_next(detector: Detector, run: RunDirectory) -> None:
    say(f"the detector is {run.detector}; {describe_threshold(detector)}")
    where = shlex.quote(str(run.path))
    if detector.calibration is None:
        say(f"Next: oddone calibrate {where} SOURCE, with normal images that are new to it")
    else:
        say(f"Next: oddone score {where} PICTURES, or oddone explain {where} PICTURE --out why.png")


def _scalars_to(run: RunDirectory) -> Callable[[Report], None]:
    """Return a function that writes what it is told for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            "--tensorboard needs a package that is not here: pip install 'oddone[tensorboard]'"
        ) from error
    writer = SummaryWriter(str(run.path / "tensorboard"))

    def write(report: Report) -> None:
        scalars = {"loss": report.loss, "learning rate": report.learning_rate, **report.terms}
        for name, value in scalars.items():
            writer.add_scalar(name, value, report.step)

    return write
