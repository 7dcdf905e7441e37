"""`oddone fit`: a detector on an encoder that others have trained, in a minute."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from oddone import distributed
from oddone.api import DEFAULT_ENCODER, fit as fit_detector
from oddone.cli.loading import load_images
from oddone.cli.out_file import check_out_file
from oddone.cli.processes import as_one_process, check_same_images
from oddone.cli.provenance import describe_images
from oddone.cli.terminal import counted, describe_threshold, progress_with_warnings, say
from oddone.detector import Detector
from oddone.encoders import check_installed, default_image_size
from oddone.provenance import stated_estimate, versions
from oddone.selection.fit import candidate_by_name
from oddone.wording import advise_on_estimate, describe_estimate

app = App(name="fit")


@app.default
def fit(
    source: str,
    /,
    *,
    out: Path,
    encoder: str = DEFAULT_ENCODER,
    size: int | None = None,
    rule: str | None = None,
    learn_head: Annotated[bool, Parameter(negative=())] = False,
    false_alarms: float = 0.05,
    per_class: Annotated[bool, Parameter(negative=())] = False,
    strict: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Make a detector for labelled images without training, on a pretrained encoder.

    Every image is seen once; then classes are left out in turn, to choose how images are scored and
    to say what to expect of things that were never shown. Started by torchrun, each process embeds
    its share of the images, and the first writes the detector.

    Examples: `oddone fit photos/ --out birds.oddone`, `oddone fit photos/ --out birds.oddone
    --encoder transformers:facebook/dinov2-small`.

    Parameters
    ----------
    source
        Labelled images: a folder with one folder per class, or a notation of `oddone data list`.
    out
        The file for the detector.
    encoder
        A pretrained encoder: efficientnet-lite0, -lite1 or -lite2, or transformers:NAME_OR_FOLDER.
    size
        Height and width of the images that the encoder sees; by default what suits it.
    rule
        How images are scored, such as "energy"; by default what is best at left-out classes, and
        with --learn-head the distance.
    learn_head
        Train a projection head by MCL on rotated and mirrored images and measure distances there:
        takes minutes, and may help with unseen things that are close to a class.
    false_alarms
        The share of normal images that may be called anomalous.
    per_class
        Give each predicted class with enough images a threshold of its own.
    strict
        Stop at the first image file that cannot be read, instead of leaving it out.
    """
    with as_one_process():
        if distributed.is_first():
            check_out_file(out)
        check_installed(encoder)
        if rule is not None:
            candidate_by_name(rule)  # before images are read for minutes
        size = default_image_size(encoder) if size is None else size
        options = {"--encoder": encoder, "--size": size, "--learn-head": learn_head}
        distributed.check_same({**versions("numpy"), **options})
        with distributed.in_turn(on_each_machine=True):  # others find the images in the cache
            images = load_images(source, size, strict=strict)
        check_same_images(images)
        say(
            f"{counted(len(images), 'image', 'images')} in "
            f"{counted(len(images.classes), 'class', 'classes')} from {source}, as {encoder} sees "
            f"them: {size} x {size} pixels"
        )
        with progress_with_warnings() as progress:
            detector = fit_detector(
                images,
                encoder=encoder,
                image_size=size,
                rule=rule,
                learn_head=learn_head,
                false_alarms=false_alarms,
                per_class=per_class,
                progress=progress,
            )
        about = {
            "command": ["oddone", *sys.argv[1:]],
            "data": describe_images(source, images, size=size, strict=strict),
        }
        provenance = {**detector.provenance, **about, **distributed.describe()}
        _save(replace(detector, provenance=provenance), out)


@distributed.by_first
def _save(detector: Detector, out: Path) -> None:
    detector.save(out)
    _say_what_to_expect(detector, out)


def _say_what_to_expect(detector: Detector, out: Path) -> None:
    estimate = stated_estimate(detector.provenance)
    if estimate is None and len(detector.classes) == 1:
        say(
            f"one class, {detector.classes[0]!r}: the detector says whether an image is like those "
            f"it was shown. How well, only images of other things can tell: oddone evaluate"
        )
    elif estimate is None:
        say(
            "how well things that were never shown are told apart is not known, as with a class "
            "left out too little remains to compare; oddone evaluate measures it"
        )
    else:
        say(describe_estimate(estimate))
        say(advise_on_estimate(detector, estimate))
    say(f"the detector is {out}; {describe_threshold(detector)}")
    where = shlex.quote(str(out))
    say(
        f"Next: oddone score {where} IMAGES, or oddone report {where} --test TEST_IMAGES "
        f"--out report.html"
    )
