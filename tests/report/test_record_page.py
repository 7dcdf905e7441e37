import re

from test_detector_page import NASTY, Elements, illustration

from oddone.report.comparison import Comparison, Measure, MeasuredNumber, MethodRow, PaperNumber
from oddone.report.record_page import NetworkRow, RecordChapter, render_record_page

MEASURES = [Measure("SVHN", "AUROC"), Measure("SVHN", "FPR@95", lower_is_better=True)]
WORSE = MeasuredNumber(70.04, "70.0", None, PaperNumber(89.9, "▼ 89.9", "worse"))
BETTER = MeasuredNumber(99.5, "99.5 ± 0.1", 0.1, PaperNumber(99.3, "▲ 99.3", "better"))
METHODS = [
    MethodRow(["MSP", "-"], [WORSE, None]),
    MethodRow(["MCL", "w-avg"], [BETTER, MeasuredNumber(12.0, "12.0")]),
]


def chapter(name: str = "paper-main", **changes: object) -> RecordChapter:
    plain = RecordChapter(
        name,
        f"{name}.json",
        "compares 2 methods.",
        Comparison(["Method", "Agg"], MEASURES, METHODS),
        ["What each reaches, in percent.", "Scale cpu: small."],
        [illustration("comparison")],
        [NetworkRow("MCL, fine-tuned", "MCL", 1234, 9.96, "models/abc")],
        {"Command": "oddone bench paper-main"},
    )
    return plain._replace(**changes)


def cells_of(page: str) -> list[str]:
    """Return what the cells hold, their tags too."""
    return re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", page)


def test_the_page_begins_with_what_matters_most_of_each_record() -> None:
    page = render_record_page([chapter(), chapter("paper-sei")])
    assert "<h1>Report on paper-main and paper-sei</h1>" in page
    leads = re.findall(r'<p class="lead">(.*?)</p>', page)
    names = ("paper-main", "paper-sei")
    assert leads == [f"<strong>{name}</strong> compares 2 methods." for name in names]
    assert "<p>paper-main: paper-main.json</p>" in page


def test_the_heading_counts_records_that_are_too_many_to_be_named() -> None:
    names = [f"table-{number}" for number in range(5)]
    page = render_record_page([chapter(name) for name in names])
    assert "<h1>Report on 5 records of oddone bench</h1>" in page
    assert all(f">{name}</a>" in page for name in names)


def test_ours_stands_above_the_papers_and_the_best_is_bold() -> None:
    cells = cells_of(render_record_page([chapter()]))
    assert cells[:9] == [
        "Method<small>Agg</small>",
        "SVHN<br>AUROC",
        "SVHN<br>FPR@95",
        "MSP<small>-</small>",
        '70.0<small class="worse">▼ 89.9</small>',
        "-",
        "MCL<small>w-avg</small>",
        '<strong>99.5 ± 0.1</strong><small class="better">▲ 99.3</small>',
        "<strong>12.0</strong>",
    ]


def test_captions_networks_and_origin_are_told() -> None:
    page = render_record_page([chapter()])
    assert page.index("What each reaches, in percent.") < page.index("<table>")
    assert page.index("</table>") < page.index("Scale cpu: small.") < page.index("<img ")
    assert cells_of(page)[-5:] == ["MCL, fine-tuned", "MCL", "1,234", "10.0", "models/abc"]
    assert "<dt>Command</dt><dd>oddone bench paper-main</dd>" in page
    begun = chapter(networks=[NetworkRow("MCL", "", 1, 0.0, "models/abc")])
    assert cells_of(render_record_page([begun]))[-5:-3] == ["MCL", "-"]


def test_contents_lead_to_several_records_and_are_left_out_for_one() -> None:
    elements = Elements(render_record_page([chapter(), chapter("paper-sei")]))
    anchors = {attributes.get("id") for _, attributes in elements.elements}
    assert (
        {str(link["href"])[1:] for link in elements.all("a")} == {"record-1", "record-2"} < anchors
    )
    assert Elements(render_record_page([chapter()])).all("nav") == []


def test_whatever_names_hold_is_text() -> None:
    number = MeasuredNumber(1.0, NASTY, None, PaperNumber(1.0, NASTY, "same"))
    comparison = Comparison(
        [NASTY] * 2, [Measure(NASTY, NASTY)], [MethodRow([NASTY] * 2, [number])]
    )
    nasty = RecordChapter(
        NASTY,
        NASTY,
        NASTY,
        comparison,
        [NASTY, NASTY],
        [illustration()],
        [NetworkRow(NASTY, NASTY, 1, 1.0, NASTY)],
        {NASTY: NASTY},
    )
    elements = Elements(render_record_page([nasty, nasty]))
    assert elements.all("script") == []
    assert elements.all("b") == []
    assert elements.text.count(NASTY) >= 40
