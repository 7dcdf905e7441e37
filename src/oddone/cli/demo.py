"""`oddone demo`: the whole method on the images inside oddone, compared with cross-entropy."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from oddone.baselines import energy, msp
from oddone.bench import Interrupted
from oddone.cli.provenance import provenance_of
from oddone.cli.terminal import describe_threshold, progress_bar, say
from oddone.cli.training_progress import (
    EXIT_INTERRUPTED,
    fit_and_save_detector,
    train_with_progress,
)
from oddone.data import ImageSet, load
from oddone.detector import Detector, DetectorSettings
from oddone.encoders import load_network
from oddone.errors import SettingsError
from oddone.evaluation import Evaluation, as_json, evaluate, evaluate_scores
from oddone.files import write_json
from oddone.metrics import accuracy
from oddone.presets import cpu, demo as demo_settings
from oddone.report import draw_explanation, save_figure
from oddone.scoring import score_images
from oddone.training import RunDirectory, TrainSettings, split_held_out
from oddone.transforms import one_view
from oddone.wording import describe_verdict

KNOWN, UNSEEN, DIGITS = "fashion:known", "unseen garments", "digits"

app = App(name="demo")


class DemoImages(NamedTuple):
    """The images of the demo."""

    training: ImageSet
    test: ImageSet
    oods: Mapping[str, ImageSet]


@app.default
def demo(
    *,
    out: Path = Path("oddone-demo"),
    minutes: float | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Learn eight garments, then meet two that were never shown, and hand-written digits.

    Trains a detector and, for comparison, a classifier with cross-entropy: the same network, the
    same minutes. Run again, it goes on where it stopped.

    Example: `oddone demo`

    Parameters
    ----------
    out
        The folder for all that is made.
    minutes
        How long to train each of the two.
    overwrite
        Start from the beginning if the folder holds an earlier demo.
    """
    settings = demo_settings()
    if minutes is not None:
        settings = replace(settings, minutes=minutes)
    if overwrite and out.exists():
        _remove(out)
    try:
        detector, results = compare(out, settings)
    except Interrupted:
        say(f"stopped; nothing is lost. Go on with: oddone demo --out {shlex.quote(str(out))}")
        return EXIT_INTERRUPTED
    _print_table(results)
    write_json(out / "demo.json", {name: as_json(result) for name, result in results.items()})
    _explain_three(detector, out)
    where = shlex.quote(str(out / "mcl"))
    say(f"Everything is in {out}: the detector is {out / 'mcl' / 'detector.oddone'}.")
    say("Next, with a folder of your own that has one folder per class:")
    say("  oddone train photos/ --out run && oddone score run new-photos/")
    say(f"or look closer at this one: oddone evaluate {where} {KNOWN}#test --ood digits=digits")
    return 0


def compare(out: Path, settings: TrainSettings) -> tuple[Detector, dict[str, Evaluation]]:
    """Return the detector, and the metrics of it, of it with one view, and of cross-entropy."""
    images = DemoImages(
        load(KNOWN),
        load(f"{KNOWN}#test"),
        {UNSEEN: load("fashion:unseen#test"), DIGITS: load("digits:", size=28)},
    )
    say("1. Masked contrastive learning: eight garments, each in four rotations")
    run = _train(out / "mcl", images.training, settings)
    detector = fit_and_save_detector(run, images.training)
    say(f"   {describe_threshold(detector)}")
    say("2. For comparison, cross-entropy: the same network for as long, by its own recipe")
    plain = replace(cpu(), minutes=settings.minutes, model=settings.model)
    run_of_classifier = _train(out / "cross-entropy", images.training, plain)
    say("3. Garments never shown, and digits")
    with progress_bar() as progress:
        trained = detector.embedder.trained
        upright = Detector.fit(
            trained,
            images.training,
            replace(DetectorSettings.suited_to(trained), views=one_view),
            indices=split_held_out(images.training, settings).training,
            progress=progress,
        )
        results = {
            "MCL, eight views": evaluate(detector, images.test, images.oods, progress=progress),
            "MCL, one view": evaluate(upright, images.test, images.oods, progress=progress),
        }
    return detector, results | _cross_entropy_results(run_of_classifier, images)


def _train(folder: Path, images: ImageSet, settings: TrainSettings) -> RunDirectory:
    """Return a finished run; if an earlier demo has begun it, go on with it."""
    if RunDirectory.exists(folder):
        run = RunDirectory.open(folder)
    else:
        provenance = provenance_of(KNOWN, images, settings, strict=False)
        run = RunDirectory.create(folder, settings, provenance)
    if not run.finished and train_with_progress(images, run.settings, run).stopped:
        raise Interrupted
    return run


def _cross_entropy_results(run: RunDirectory, images: DemoImages) -> dict[str, Evaluation]:
    """Return the metrics of the classifier by its logits, and of the preset's own detector."""
    trained = load_network(run.encoder_path)
    results = {}
    for method, scorer in (("softmax", msp(trained)), ("energy", energy(trained))):
        test = score_images(scorer, images.test)
        results[f"cross-entropy, {method}"] = evaluate_scores(
            test.scores,
            {name: score_images(scorer, ood).scores for name, ood in images.oods.items()},
            accuracy=accuracy(test.labels, images.test.labels),
        )
    detector = fit_and_save_detector(run, images.training)
    results["cross-entropy, energy + distance"] = evaluate(detector, images.test, images.oods)
    return results


def _print_table(results: Mapping[str, Evaluation]) -> None:
    oods = next(iter(results.values())).oods
    table = Table("method", "accuracy", *(f"AUROC, {name}" for name in oods), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, result in results.items():
        shares = [result.accuracy, *(ood.metrics.auroc for ood in result.oods.values())]
        table.add_row(name, *(f"{share:.1%}" for share in shares if share is not None))
    Console().print(table)


def _explain_three(detector: Detector, out: Path) -> None:
    """Draw why a known garment, an unseen one and a digit got their verdicts."""
    for name, source in (
        ("known", f"{KNOWN}#test"),
        ("unseen", "fashion:unseen#test"),
        ("digit", "digits:"),
    ):
        images = load(source, size=detector.image_size)
        image = images.images[0]
        explanation = detector.explain(image[None])[0]
        path = out / f"explain-{name}.png"
        save_figure(draw_explanation(detector, image, explanation, title=images.paths[0]), path)
        verdict = describe_verdict(detector, explanation.verdict).headline
        say(f"   {images.classes[images.labels[0]]} -> {verdict}; why: {path}")


def _remove(out: Path) -> None:
    """Remove the runs of an earlier demo, whose other files are then replaced.

    A folder that holds anything else is an error.
    """
    if not (out / "mcl").is_dir():
        raise SettingsError(f"{out} holds no earlier demo, so --overwrite leaves it alone")
    runs = [out / "mcl", out / "cross-entropy"]
    for run in runs:
        RunDirectory.check_free(run, overwrite=True)
    for run in filter(Path.exists, runs):
        RunDirectory(run).remove()
