"""The pages in a real browser, if there is one: nothing complains, and everything fits."""

import base64
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from oddone.evaluation import ClassResult, OODClassResult, evaluate_scores
from oddone.report.comparison import Comparison, Measure, MeasuredNumber, MethodRow, PaperNumber
from oddone.report.detector_page import DetectorChapter, render_detector_page
from oddone.report.figures import Illustration, illustrate_comparison, illustrate_losses
from oddone.report.record_page import NetworkRow, RecordChapter, render_record_page
from oddone.report.roc import draw_roc
from oddone.report.style import svg_for_pages
from oddone.report.tsne import TSNEPanel, draw_tsne

CHROMIUM = shutil.which("chromium")
WIDTHS = (375, 1280)
LONG = "anamewithoutanyspacethatiswiderthanaphone" * 4

# A page around the report shows it in frames of these widths, and writes down what it measures.
AROUND = """<!doctype html>{frames}<pre id="measured"></pre><script>
onload = () => {{
  const measure = frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const pictures = [...page.images].map(image => image.naturalWidth);
    const hints = [...page.querySelectorAll(".hint")].map(hint => hint.offsetHeight > 0);
    return {{width: root.clientWidth, needed: root.scrollWidth, pictures, hints}};
  }};
  const measured = [...document.querySelectorAll("iframe")].map(measure);
  document.getElementById("measured").textContent = JSON.stringify(measured);
}};
</script>"""


def page_on_detectors() -> str:
    """Return a page with a wide figure, a wide table and very long names; it has 5 pictures."""
    generator = np.random.default_rng(0)
    ind, ood = generator.normal(0, 1, 100), generator.normal(2, 1, 100)
    panel = TSNEPanel(LONG, generator.normal(size=(40, 2)), np.arange(40) % 4 - 1)
    tsne = draw_tsne([panel] * 4, ["cat", "dog", LONG])
    wide = Illustration("tsne", LONG, LONG, LONG, tsne, wide=True)
    roc = Illustration("roc", "ROC", LONG, LONG, draw_roc(ind, {LONG: ood}, 1.5))
    tensors = [torch.from_numpy(scores) for scores in (ind, ood)]
    evaluation = evaluate_scores(tensors[0], {LONG: tensors[1]}, accuracy=0.9, threshold=1.5)
    ood_class = OODClassResult(100, 0.5, 0.9, {LONG: 1.0})
    evaluation = evaluation._replace(
        classes={LONG: ClassResult(100, 0.9, 0.9, 0.1)},
        oods={LONG: evaluation.oods[LONG]._replace(classes={LONG: ood_class})},
    )
    chapter = DetectorChapter(
        LONG,
        evaluation,
        seen_in_training=True,
        illustrations=[roc, roc],
        facts=[LONG, LONG],
        estimate={"auroc": 0.9, "classes": {LONG: 0.9, "cat": 0.95}, "method": LONG},
    )
    return render_detector_page([chapter, chapter], [wide], {LONG: LONG})


def page_on_records() -> str:
    """Return a page with wide tables and very long names; it has 4 pictures."""
    number = MeasuredNumber(50.0, "50.00 ± 0.01", 0.01, PaperNumber(60.0, "▼ 60.00", "worse"))
    methods = [MethodRow([name, LONG], [number] * 9) for name in ("MCL", LONG)]
    comparison = Comparison([LONG, LONG], [Measure(LONG, LONG)] * 9, methods)
    history = [{"step": step, "loss": 1 / step} for step in range(1, 9)]
    figures = [
        illustrate_comparison(comparison),
        illustrate_losses({LONG: [history], "b": [history]}),
    ]
    networks = [NetworkRow(LONG, LONG, 1, 1.0, LONG)]
    chapter = RecordChapter(
        LONG, LONG, LONG, comparison, [LONG] * 3, figures, networks, {LONG: LONG}
    )
    return render_record_page([chapter, chapter])


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
@pytest.mark.parametrize(("scheme", "bright"), [("1", True), ("0", False)])
def test_figures_are_as_light_or_dark_as_the_page(
    tmp_path: Path, scheme: str, bright: bool
) -> None:
    scores = np.random.default_rng(0).normal(0, 1, 100)
    uri = base64.b64encode(svg_for_pages(draw_roc(scores, {"ood": scores + 2}))).decode()
    (tmp_path / "page.html").write_text(
        f'<body style="margin: 0; color-scheme: light dark">'
        f'<img src="data:image/svg+xml;base64,{uri}" width="400" height="400">'
    )
    shot = tmp_path / "shot.png"
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=400,400",
        f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}",
        f"--blink-settings=preferredColorScheme={scheme}", (tmp_path / "page.html").as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603
    with Image.open(shot) as drawn:
        pixels = np.asarray(drawn.convert("L"))[:390, :390]
    assert (np.median(pixels) > 128) == bright
    assert pixels.max() - pixels.min() > 150  # there is something to be seen


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
def test_the_pages_fit_show_all_pictures_and_nothing_complains(tmp_path: Path) -> None:
    pages = {"detectors.html": page_on_detectors(), "records.html": page_on_records()}
    for name, page in pages.items():
        (tmp_path / name).write_text(page)
    frames = "".join(
        f'<iframe src="{name}" style="border: 0" width="{width}" height="800"></iframe>'
        for name in pages
        for width in WIDTHS
    )
    around = tmp_path / "around.html"
    around.write_text(AROUND.format(frames=frames))
    profile = tmp_path / "profile"
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        "--hide-scrollbars", f"--user-data-dir={profile}", "--enable-logging=stderr", "--dump-dom",
        around.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603
    assert "CONSOLE" not in done.stderr
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout)
    assert found is not None
    measured = json.loads(html.unescape(found[1]))
    assert [each["width"] for each in measured] == [*WIDTHS, *WIDTHS]
    assert [len(each["pictures"]) for each in measured] == [5, 5, 4, 4]
    assert [len(each["hints"]) for each in measured] == [6, 6, 4, 4]
    for each in measured:
        assert set(each["hints"]) == {each["width"] == min(WIDTHS)}  # on a phone only
        assert each["needed"] <= each["width"]
        assert min(each["pictures"]) > 0
