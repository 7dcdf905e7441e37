"""`oddone demo`: the whole method on the images inside oddone, beside a plain classifier."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import MofNCompleteColumn
from rich.table import Table

from oddone.baselines import energy_scores, logits_of, msp_scores
from oddone.cli.detectors import describe_threshold
from oddone.cli.runs import finish_detector, provenance_of, train_watched
from oddone.cli.terminal import bar, say
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.errors import SettingsError
from oddone.evaluation import Evaluation, as_json, evaluate, evaluate_scores
from oddone.files import write_json
from oddone.metrics import accuracy
from oddone.presets import demo as demo_settings
from oddone.report import draw_explanation, save_figure
from oddone.training import RunDirectory, TrainSettings, load_network, split
from oddone.transforms import one_view
from oddone.wording import describe_verdict

KNOWN, UNSEEN, DIGITS = "fashion:known", "unseen garments", "digits"

app = App(name="demo")


class Stopped(Exception):  # noqa: N818  (not an error: the user's wish)
    """The user pressed Ctrl-C; the runs keep what was learned."""


class Sets(NamedTuple):
    """The images of the demo."""

    training: ImageSet
    test: ImageSet
    odd: Mapping[str, ImageSet]


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
        Begin anew if the folder holds an earlier demo.
    """
    settings = demo_settings()
    if minutes is not None:
        settings = replace(settings, minutes=minutes)
    if overwrite and out.exists():
        _remove(out)
    try:
        detector, results = compare(out, settings)
    except Stopped:
        say(f"stopped; nothing is lost. Go on with: oddone demo --out {shlex.quote(str(out))}")
        return 130
    _print_table(results)
    write_json(out / "demo.json", {name: as_json(result) for name, result in results.items()})
    _explain_three(detector, out)
    where = shlex.quote(str(out / "mcl"))
    say(f"All of it lies in {out}: the detector is {out / 'mcl' / 'detector.oddone'}.")
    say("Next, with a folder of your own that has one folder per class:")
    say("  oddone train photos/ --out run && oddone score run new-photos/")
    say(f"or look closer at this one: oddone evaluate {where} {KNOWN}#test --ood digits=digits")
    return 0


def compare(out: Path, settings: TrainSettings) -> tuple[Detector, dict[str, Evaluation]]:
    """Return the detector, and how it does beside its plain form and beside cross-entropy."""
    images = Sets(
        load(KNOWN),
        load(f"{KNOWN}#test"),
        {UNSEEN: load("fashion:unseen#test"), DIGITS: load("digits", size=28)},
    )
    say("1. Masked contrastive learning: eight garments, each in four turns")
    run = _trained(out / "mcl", images.training, settings)
    detector = finish_detector(run, images.training)
    say(f"   {describe_threshold(detector)}")
    say("2. For comparison, cross-entropy: the same network for as long")
    plain = replace(settings, objective="cross-entropy", rotations="none")
    classifier = _trained(out / "cross-entropy", images.training, plain)
    say("3. Garments never shown, and digits")
    with bar(MofNCompleteColumn()) as progress:
        upright = Detector.fit(
            detector.encoder.trained,
            images.training,
            indices=split(images.training, settings).training,
            views=one_view,
            progress=progress,
        )
        results = {
            "MCL, eight views": evaluate(detector, images.test, images.odd, progress=progress),
            "MCL, one view": evaluate(upright, images.test, images.odd, progress=progress),
        }
    return detector, results | _cross_entropy_results(classifier, images)


def _trained(folder: Path, source: ImageSet, settings: TrainSettings) -> RunDirectory:
    """Return a finished run, which may have been begun by an earlier demo."""
    if (folder / "settings.toml").exists():
        run = RunDirectory.open(folder)
    else:
        provenance = provenance_of(KNOWN, source, settings, strict=False)
        run = RunDirectory.create(folder, settings, provenance)
    if not run.encoder.exists() and not train_watched(source, run.settings, run).finished:
        raise Stopped
    return run


def _cross_entropy_results(run: RunDirectory, images: Sets) -> dict[str, Evaluation]:
    trained = load_network(run.encoder)
    test = logits_of(trained, images.test.images)
    odd = {name: logits_of(trained, ood.images) for name, ood in images.odd.items()}
    correct = accuracy(test.argmax(dim=1), images.test.labels)
    return {
        f"cross-entropy, {name}": evaluate_scores(
            score(test), {ood: score(logits) for ood, logits in odd.items()}, accuracy=correct
        )
        for name, score in (("softmax", msp_scores), ("energy", energy_scores))
    }


def _print_table(results: Mapping[str, Evaluation]) -> None:
    odd = next(iter(results.values())).oods
    table = Table("method", "accuracy", *(f"AUROC, {name}" for name in odd), box=None)
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
        ("digit", "digits"),
    ):
        images = load(source, size=detector.image_size)
        image = images.images[0]
        explanation = detector.explain(image[None])[0]
        path = out / f"explain-{name}.png"
        save_figure(draw_explanation(detector, image, explanation, title=images.paths[0]), path)
        verdict = describe_verdict(detector, explanation).headline
        say(f"   {images.classes[images.labels[0]]} -> {verdict}; why: {path}")


def _remove(out: Path) -> None:
    """Remove what an earlier demo left, and nothing else."""
    if not (out / "mcl" / "settings.toml").is_file():
        raise SettingsError(f"{out} holds no earlier demo, so --overwrite leaves it alone")
    shutil.rmtree(out)
