"""`oddone export`: a detector in one file, for programs that know nothing of oddone."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from oddone.cli.loading import load_images, load_new_images, open_detector
from oddone.cli.options import REPEATED, sources_by_name
from oddone.cli.out_file import check_out_file, write_out_file
from oddone.cli.terminal import note, progress_with_warnings, say
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.errors import SettingsError
from oddone.export.comparison import AurocChange, OnnxScorer, VerdictChange
from oddone.export.files import int8_content, onnx_content, pt2_content
from oddone.export.one_view import without_sei
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import ENDING, onnx_package, onnxruntime_package
from oddone.files import DETECTOR_NAME, file_or_in_run
from oddone.progress import Progress
from oddone.scoring import Scorer, score_images
from oddone.transforms import one_view
from oddone.verdicts import Verdicts

PROGRAM_ENDING = ".pt2"

app = App(name="export")


@app.default
def export(
    detector: Path,
    /,
    *,
    out: Path,
    fixed_size: Annotated[bool, Parameter(negative=())] = False,
    no_sei: Annotated[bool, Parameter(name="--no-sei", negative=())] = False,
    int8: Annotated[bool, Parameter(negative=())] = False,
    calibration: str | None = None,
    ood: Annotated[tuple[str, ...], REPEATED] = (),
    sha256: str | None = None,
) -> None:
    """Write a detector as one graph: bytes of images in, verdicts out, for ONNX Runtime or torch.

    The graph takes `images`, uint8 [batch, height, width, 3], and gives `score`, `label`,
    `probabilities` and, if calibrated, `p_value` and `anomalous`.

    Examples: `oddone export run --out detector.onnx`,
    `oddone export run --out small.onnx --int8 --no-sei --calibration photos/ --ood weeds=weeds/`.

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    out
        The file: .onnx, or .pt2 for `torch.export.load`.
    fixed_size
        Take only images of the encoder's size, and resize none: a smaller graph.
    no_sei
        Look at one view of an image, not at several: many times as fast, and less accurate. It
        needs --calibration for a threshold of its own.
    int8
        Compute the network in 8-bit integers. It needs --calibration for their ranges, and for a
        threshold of its own.
    calibration
        Normal images that were not trained on. With them, the change of verdicts is told.
    ood
        Images of no known class, as NAME=SOURCE; may be given several times. With them, the change
        of the AUROC is told.
    sha256
        The SHA-256 that the detector's file must have, as `sha256sum` prints it.
    """
    _check_options(out, calibration, ood, changed=no_sei or int8, int8=int8)
    file = file_or_in_run(detector, DETECTOR_NAME)
    before = open_detector(file, sha256)
    images = None if calibration is None else load_new_images(calibration, before)
    oods = {
        name: load_images(source, before.image_size)
        for name, source in sources_by_name(ood).items()
    }
    _tell_of(before, no_sei=no_sei)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with progress_with_warnings() as progress:
        after = without_sei(before, _given(images), progress) if no_sei else before
        if int8:
            content = int8_content(
                after,
                _given(images),
                fixed_size=fixed_size,
                detector_sha256=digest,
                progress=progress,
            )
        else:
            make = onnx_content if out.suffix.lower() == ENDING else pt2_content
            content = make(after, fixed_size=fixed_size, detector_sha256=digest)
    write_out_file(out, content)
    say(f"{out} has {len(content) / 1e6:.1f} MB: {_describe(after, fixed_size=fixed_size)}")
    if images is not None:
        exported: Scorer = after
        if out.suffix.lower() == ENDING:
            exported = OnnxScorer(OnnxDetector.of(out, content))
        with progress_with_warnings() as progress:
            _tell_change(before, exported, images, oods, progress)


def _check_options(
    out: Path, calibration: str | None, ood: tuple[str, ...], *, changed: bool, int8: bool
) -> None:
    check_out_file(out, (ENDING, PROGRAM_ENDING))
    if int8 and out.suffix.lower() != ENDING:
        raise SettingsError(f"--int8 is for ONNX files; let --out {out} end in {ENDING}")
    if calibration is None and changed:
        raise SettingsError(
            "--no-sei and --int8 change the scores, so the threshold is set anew; give normal "
            "images that were not trained on with --calibration SOURCE"
        )
    if calibration is None and ood:
        raise SettingsError(
            "--ood compares with normal images; give some with --calibration SOURCE"
        )
    if out.suffix.lower() == ENDING:
        onnx_package()
        onnxruntime_package()


def _given(images: ImageSet | None) -> ImageSet:
    assert images is not None  # noqa: S101  (`_check_options` sees to that)
    return images


def _tell_of(detector: Detector, *, no_sei: bool) -> None:
    if no_sei and detector.embedder.views == one_view:
        note("this detector looks at one view already; --no-sei changes nothing")
    if detector.stages and not no_sei:
        note(
            f"this detector looks at as many views as a verdict needs; the file always looks at "
            f"all {len(detector.embedder.views)}"
        )
    if detector.calibration is None:
        note("this detector has no threshold, so the file gives scores and calls nothing anomalous")


def _describe(detector: Detector, *, fixed_size: bool) -> str:
    views, size = len(detector.embedder.views), detector.image_size
    shown = "1 view" if views == 1 else f"{views} views"
    taken = f"images of {size} x {size} pixels" if fixed_size else "images of any size"
    return f"it takes {taken}, and looks at {shown} of {size} x {size} pixels"


def _tell_change(
    before: Detector,
    after: Scorer,
    images: ImageSet,
    oods: Mapping[str, ImageSet],
    progress: Progress,
) -> None:
    """Say how the verdicts of the file differ from those of the detector."""

    def both(source: ImageSet) -> tuple[Verdicts, Verdicts]:
        return (
            score_images(before, source, progress=progress),
            score_images(after, source, progress=progress),
        )

    ind = both(images)
    say(VerdictChange.of(*ind).describe())
    for name, source in oods.items():
        say(AurocChange.of(name, ind, both(source)).describe())
