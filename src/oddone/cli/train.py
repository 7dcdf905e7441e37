"""`oddone train`: from labelled images to a detector in a run directory."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from oddone import distributed
from oddone.api import check_fit, keep_detector
from oddone.cli.loading import load_images
from oddone.cli.options import check_values
from oddone.cli.processes import (
    as_one_process,
    check_same_images,
    is_restarted,
    start_processes,
)
from oddone.cli.provenance import describe_encoder, describe_images, provenance_of
from oddone.cli.terminal import counted, describe_threshold, progress_with_warnings, say
from oddone.cli.train_options import (
    ALIASES,
    DEFAULT_PRESET,
    HelpOfPreset,
    flags_of,
    resolve_settings,
    use_full_names,
)
from oddone.cli.training_progress import (
    EXIT_INTERRUPTED,
    fit_and_save_detector,
    train_with_progress,
)
from oddone.cli.training_quality import describe_quality
from oddone.data import ImageSet
from oddone.data.image_set import split_off_class
from oddone.data.stream import has_within
from oddone.detector import Detector
from oddone.encoders import TrainedNetwork, is_pretrained, load_network
from oddone.errors import DataError, SettingsError
from oddone.files import ENCODER_NAME, file_or_in_run
from oddone.metrics import auroc
from oddone.presets import PRESETS
from oddone.provenance import versions
from oddone.scoring import score_images
from oddone.suited_settings import chosen_by_first, with_suited_batch, with_suited_size
from oddone.training import (
    Outcome,
    RunDirectory,
    StepReport,
    TrainSettings,
)
from oddone.training.batches import Batches, check_outliers, check_source
from oddone.training.checkpoint import newest_checkpoint, read_progress
from oddone.training.initialise import initial_network

CPU = PRESETS[DEFAULT_PRESET]()
ALIAS = Parameter(name=tuple(ALIASES), negative=(), show=False)

app = App(
    name="train",
    config=(use_full_names, check_values, resolve_settings),
    help_formatter=HelpOfPreset(),
)


@app.default
def train(
    source: str | None = None,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    start: Path | None = None,
    sha256: str | None = None,
    outliers: str | None = None,
    leave_out: str | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    strict: Annotated[bool, Parameter(negative=())] = False,
    preset: str | None = None,  # noqa: ARG001  (`resolve_settings` reads it)
    config: Path | None = None,  # noqa: ARG001  (`resolve_settings` reads it)
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    processes: int = 1,
    keep_batch: Annotated[bool, Parameter(show=False, negative=())] = False,
    aliases: Annotated[tuple[str, ...], ALIAS] = (),  # noqa: ARG001  (`use_full_names` reads it)
    settings: Annotated[TrainSettings, Parameter(name="*", negative_iterable=())] = CPU,
) -> int:
    """Train a detector on labelled images: the encoder, its Gaussians, and a calibrated threshold.

    Examples: `oddone train fashion --preset smoke --out run`, `oddone train photos/ --out run
    --minutes 30 --loss.alpha 0.1`, `oddone train --resume run`, `oddone train --resume run
    --minutes 60`, `oddone train photos/ --out tuned --start run --objective cross-entropy`.

    Parameters
    ----------
    source
        Labelled images: a folder with one folder per class, or a notation of `oddone data list`.
    out
        The run directory to make, outside the images.
    resume
        The run directory to go on with; its own settings hold. With --minutes, --steps or --epochs
        it gets a new length in all; with --source its images are found in another place.
    start
        A finished run, or its encoder.safetensors: begin with the weights of that encoder.
    sha256
        The SHA-256 that the encoder.safetensors of --start must have, as `sha256sum` prints it.
    outliers
        Images of no class, named like SOURCE, for outlier exposure: cross-entropy is to find all
        classes equally likely for them.
    leave_out
        A class to train without: at the end its images, which are then really unseen, say how well
        such are told from the others.
    overwrite
        Replace the run directory if it exists.
    strict
        Stop at the first image file that cannot be read, instead of leaving it out.
    preset
        Which settings to begin with: cpu, pretrained, mcl, classifier, paper, authors or smoke;
        with --help, shows them. By default pretrained for a pretrained encoder, and for a folder of
        photographs if oddone[pretrained] is installed; cpu for all else.
    config
        A TOML file with settings, such as the settings.toml of another run.
    tensorboard
        Write the history for TensorBoard too.
    processes
        How many processes on this machine train as one, each on a share of every batch; for several
        machines, start oddone by torchrun.
    keep_batch
        Whether batch.images was chosen by the user.
    """
    if processes != 1:
        return start_processes(processes)
    if sha256 is not None and start is None:
        raise SettingsError("--sha256 is that of the encoder to start from; name it with --start")
    with as_one_process():
        distributed.check_same({**versions("numpy"), **flags_of(settings)})
        if resume is not None:
            return _go_on(resume, source, settings, tensorboard=tensorboard)
        if source is None or out is None:
            raise SettingsError(
                "say what to train on and where to: oddone train SOURCE --out RUN (or --resume RUN)"
            )
        if is_restarted(out):
            return _go_on(out, None, None, tensorboard=tensorboard)
        _check_out(out, source, overwrite=overwrite)
        _say_what_is_pretrained(settings)
        if start is None:
            settings = chosen_by_first(lambda: with_suited_size(settings, source, say))
        loaded = _load_and_describe(source, settings.model.image_size, strict=strict)
        images, left_out = loaded, None
        if leave_out is not None:
            images, left_out = split_off_class(loaded, leave_out)
            say(f"trained without the {counted(len(left_out), 'image', 'images')} of {leave_out!r}")
        check_source(images, settings)
        if images.classes:
            check_fit(images, settings)
        with progress_with_warnings():
            settings = chosen_by_first(
                lambda: with_suited_batch(settings, images, keep_batch=keep_batch, say=say)
            )
        provenance = provenance_of(source, loaded, settings, strict=strict)
        if leave_out is not None:
            provenance["left_out"] = {"class": leave_out}
        inputs, more = _load_the_rest(
            images, outliers, start, settings, sha256=sha256, strict=strict
        )
        inputs = inputs._replace(left_out=left_out)
        provenance |= more | distributed.describe()
        run = RunDirectory.create(out, settings, provenance, overwrite=overwrite)
        with run.removed_unless_begun():
            return _train(run, inputs, tensorboard=tensorboard)


def _check_out(out: Path, source: str, *, overwrite: bool) -> None:
    """Raise an error, before images are loaded, where no run can be made."""
    RunDirectory.check_free(out, overwrite=overwrite)
    if has_within(source, out):
        raise SettingsError(
            f"--out {out} lies in {source}, so the next command would take the run for images; "
            f"choose a folder outside"
        )


def _say_what_is_pretrained(settings: TrainSettings) -> None:
    """Print what is not trained from scratch, and how to choose otherwise."""
    name = settings.model.encoder_name
    if is_pretrained(name) and settings.model.trained_part == "head":
        say(
            f"a head is trained on {name}, which has learned from other photographs and stays as "
            f"it is; --preset cpu trains a small network from scratch, and oddone fit needs no "
            f"training at all"
        )


def _go_on(
    path: Path, source: str | None, settings: TrainSettings | None, *, tensorboard: bool
) -> int:
    """Go on with a run, perhaps with its images in another place, or with settings of a new length.

    Return the exit code.
    """
    run = RunDirectory.open(path)
    run.check_encoder(None)
    with run.locked():
        _check_checkpoints(run)
        inputs = _load_again(run, source)
        with distributed.in_turn():  # once the first has extended it, others find it so
            if settings not in {None, run.settings}:
                _extend(run, settings, inputs.images)
        return _train(run, inputs, tensorboard=tensorboard)


class TrainInputs(NamedTuple):
    """What a run is trained on, and the network it starts from."""

    images: ImageSet
    outliers: ImageSet | None
    start: TrainedNetwork | None
    left_out: ImageSet | None = None
    """The images of a class that is not trained on."""


def _train(run: RunDirectory, inputs: TrainInputs, *, tensorboard: bool) -> int:
    """Train or resume a run, fit its detector, and return the exit code."""
    check_same_images(inputs.images, inputs.outliers)
    watch = _tensorboard_writer(run) if tensorboard and distributed.is_first() else None
    outcome = train_with_progress(
        inputs.images, run.settings, run, watch, start=inputs.start, outliers=inputs.outliers
    )
    if not outcome.finished:
        say(f"stopped after step {outcome.step:,}; nothing is lost. Go on with:")
        say(f"  oddone train --resume {shlex.quote(str(run.path))}")
        return EXIT_INTERRUPTED
    _say_result(outcome, run)
    if inputs.images.classes:
        detector = fit_and_save_detector(run, inputs.images)
        epochs = outcome.step / Batches(inputs.images, run.settings).steps_per_epoch
        if inputs.left_out is not None:
            detector = _measure_left_out(detector, inputs.left_out, run)
        for sentence in describe_quality(detector, run, epochs):
            say(sentence)
        _say_what_is_next(detector, run)
    else:
        say("without labels there are no classes to measure distances to, so there is no detector")
    return 0


def _measure_left_out(detector: Detector, left_out: ImageSet, run: RunDirectory) -> Detector:
    """Say how well the left-out class is told from held-out images; return a detector that knows.

    It was trained, fitted and calibrated without that class, so this is what it is worth.
    """
    name = run.provenance["left_out"]["class"]
    if detector.calibration is None:
        say(f"no image was held out to compare {name!r} with, so its AUROC is not known")
        return detector
    with progress_with_warnings() as progress:
        scores = score_images(detector, left_out, progress=progress, description=name).scores
    told = auroc(detector.calibration.scores, scores)
    say(
        f"the {counted(len(left_out), 'image', 'images')} of {name!r}, which it has never seen, "
        f"are told from {len(detector.calibration.scores):,} held-out images with AUROC {told:.1%}"
    )
    measured = {"class": name, "auroc": told, "images": len(left_out)}
    detector = replace(detector, provenance={**detector.provenance, "left_out": measured})
    keep_detector(run, detector)
    return detector


def _load_the_rest(
    images: ImageSet,
    outliers: str | None,
    start: Path | None,
    settings: TrainSettings,
    *,
    sha256: str | None,
    strict: bool,
) -> tuple[TrainInputs, dict[str, Any]]:
    """Return what a new run is trained on, and the provenance of all but its images.

    It is checked that they can be trained.
    """
    if len(images.classes) == 1:
        say(
            f"one class: the detector will say whether an image is normal; the label is always "
            f"{images.classes[0]}"
        )
    provenance: dict[str, Any] = {}
    outlier_images, network = None, None
    if outliers is not None:
        size = images.images.shape[-1]
        outlier_images = _load_and_describe(outliers, size, strict=strict)
        check_outliers(outlier_images, images, settings)
        provenance["outliers"] = describe_images(outliers, outlier_images, size=size, strict=strict)
    if start is not None:
        encoder_path = file_or_in_run(start, ENCODER_NAME)
        network = load_network(encoder_path, sha256=sha256)
        provenance["start"] = describe_encoder(encoder_path)
    initial_network(images, settings, start=network)  # to fail before there is a run directory
    return TrainInputs(images, outlier_images, network), provenance


def _extend(run: RunDirectory, settings: TrainSettings, images: ImageSet) -> None:
    """Give a run the length of these settings, if it is longer than what is done."""
    done = read_progress(run.checkpoints)
    steps_per_epoch = Batches(images, settings).steps_per_epoch
    if settings.share_done(done.step, done.seconds, steps_per_epoch) >= 1:
        raise SettingsError(
            f"{run.path} has made {done.step:,} steps in {done.seconds / 60:.1f} minutes already "
            f"({done.step / steps_per_epoch:.1f} epochs), and the new length is that of the whole "
            f"run; choose more"
        )
    run.extend(settings)


def _check_checkpoints(run: RunDirectory) -> None:
    """Say so if a run without a checkpoint begins anew, or raise an error where it must not."""
    if newest_checkpoint(run.checkpoints) is not None:
        return
    start = run.provenance.get("start")
    if start is not None:
        raise DataError(
            f"{run.path} was stopped before it had the weights of {start['encoder']}; begin it "
            f"again, with --overwrite"
        )
    if run.encoder_path.is_file():
        raise DataError(
            f"{run.path} is trained and has no checkpoint any more to go on from; train anew, with "
            f"another --out or with --overwrite"
        )
    say(f"{run.path} was stopped before its first checkpoint, so it begins anew")


def _load_again(run: RunDirectory, moved_to: str | None) -> TrainInputs:
    """Return what a run was begun with, its images perhaps from another place.

    Weights it started from are in its checkpoints.
    """
    provenance = run.provenance
    # A run that was begun in Python does not say where its images are.
    data = {"size": run.settings.model.image_size, "strict": False, **provenance.get("data", {})}
    if moved_to is not None:
        data["source"] = moved_to
    if not {"source", "fingerprint"} <= data.keys():
        raise DataError(f"{run.path} does not say where its images are; name them with --source")
    moved = f"; if the images of {run.path} have moved, name their place with --source"
    images = _load_unchanged(data, run, hint=moved)
    if data != provenance.get("data"):
        run.rewrite_provenance({**provenance, "data": data})
    left_out, outliers, size = None, None, images.images.shape[-1]
    if "left_out" in provenance:
        images, left_out = split_off_class(images, provenance["left_out"]["class"])
    if "outliers" in provenance:
        outliers = _load_unchanged({"strict": False, "size": size, **provenance["outliers"]}, run)
    return TrainInputs(images, outliers, None, left_out)


def _load_unchanged(described: dict[str, Any], run: RunDirectory, *, hint: str = "") -> ImageSet:
    """Return the images that the provenance describes; raise a DataError if they have changed."""
    source = described.get("source", "")
    try:
        images = _load_and_describe(source, described["size"], strict=described["strict"])
    except DataError as error:
        raise DataError(f"{error}{hint}") from error
    if images.fingerprint != described["fingerprint"]:
        raise DataError(
            f"the images of {source} have changed since {run.path} began with "
            f"{described['images']:,} images; train anew with another --out{hint}"
        )
    return images


def _load_and_describe(source: str, size: int | None, *, strict: bool) -> ImageSet:
    with distributed.in_turn(on_each_machine=True):  # one decodes, the others find it in the cache
        images = load_images(source, size, strict=strict)
    height, width = images.images.shape[2:]
    say(
        f"{counted(len(images), 'image', 'images')} of {height} x {width} pixels in "
        f"{counted(len(images.classes), 'class', 'classes')} from {source}"
    )
    return images


def _say_result(outcome: Outcome, run: RunDirectory) -> None:
    losses = [line["loss"] for line in run.history()]
    fell = f"loss {losses[0]:.3f} -> {losses[-1]:.3f}" if losses else "its history is damaged"
    say(
        f"done: {counted(outcome.step, 'step', 'steps')} in {outcome.seconds / 60:.1f} minutes, "
        f"{fell}; the encoder is {run.encoder_path}"
    )
    if losses and losses[-1] < 0:
        say(
            "a loss below zero is as it should be: in MCL a row is pulled to its own class harder "
            "than it is pushed away, so the loss is no softmax and has no lower bound at zero"
        )


def _say_what_is_next(detector: Detector, run: RunDirectory) -> None:
    say(f"the detector is {run.detector_path}; {describe_threshold(detector)}")
    where = shlex.quote(str(run.path))
    if detector.calibration is None:
        say(f"Next: oddone calibrate {where} SOURCE, with normal images that are new to it")
    else:
        say(f"Next: oddone score {where} IMAGES, or oddone explain {where} IMAGE --out why.png")


def _tensorboard_writer(run: RunDirectory) -> Callable[[StepReport], None]:
    """Return a function that writes the numbers of a report for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            "--tensorboard needs a package that is not here: pip install 'oddone[tensorboard]'"
        ) from error
    writer = SummaryWriter(str(run.path / "tensorboard"))

    def write(report: StepReport) -> None:
        scalars = {"loss": report.loss, "learning rate": report.learning_rate, **report.terms}
        for name, value in scalars.items():
            writer.add_scalar(name, value, report.step)

    return write
