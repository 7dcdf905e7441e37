import re
from html.parser import HTMLParser

from oddone.evaluation import (
    ClassResult,
    Evaluation,
    OODClassResult,
    OODMetrics,
    OODResult,
    OpenOODAupr,
)
from oddone.provenance import StatedEstimate
from oddone.report.detector_page import (
    DEFINITIONS,
    MAX_BARS,
    MAX_CLASSES,
    DetectorChapter,
    render_detector_page,
)
from oddone.report.figures import Illustration
from oddone.report.style import new_figure
from oddone.wording import describe_estimate

NASTY = "<script>alert('1')</script> & \"quotes\" </style></title><b onclick=x> {{ 7 * 7 }}{% if %}"
METRICS = OODMetrics(0.932, 0.43, 0.3, 0.9, 0.781)


WITHOUT_END = {"br", "img", "link", "meta"}


class Elements(HTMLParser):
    """The elements of a page, and all its text; every element must end where it should."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def evaluation(name: str = "svhn", detected: float | None = 0.63) -> Evaluation:
    alarms = None if detected is None else 0.069
    ood = OODResult(400, detected, METRICS, OpenOODAupr(0.9, 0.78))
    return Evaluation(1600, 0.83, alarms, {name: ood}, {})


def illustration(name: str = "roc", *, wide: bool = False) -> Illustration:
    return Illustration(name, f"{name} {NASTY}", NASTY, f"says {NASTY}", new_figure(4.0, 3.0), wide)


def chapter(name: str = "mcl", **changes: object) -> DetectorChapter:
    plain = DetectorChapter(
        name, evaluation(), seen_in_training=False, illustrations=[illustration()]
    )
    return plain._replace(**changes)


def test_the_page_begins_with_what_matters_most() -> None:
    text = Elements(render_detector_page([chapter()], [], {})).text
    assert (
        "mcl names 83.0% of 1,600 test images correctly, calls 6.9% of them odd by mistake and "
        "detects 63% of the images that are none of its classes."
    ) in text


def test_facts_stand_below_the_lead_where_there_are_some() -> None:
    page = render_detector_page([chapter(facts=["28 x 28 pixels", NASTY])], [], {})
    assert (
        page.index("mcl</strong>") < page.index("<li>28 x 28 pixels</li>") < page.index("Summary")
    )
    assert NASTY in Elements(page).text
    assert '<ul class="facts">' not in render_detector_page([chapter()], [], {})


def test_the_table_holds_each_set_and_the_numbers_are_explained() -> None:
    page = render_detector_page([chapter()], [], {})
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", page)
    row = cells.index("svhn")
    assert cells[row : row + 6] == ["svhn", "told well", "93.2%", "63.0%", "43.0%", "400"]
    assert "<span>accuracy 83.0%, false alarms 6.9%</span>" in page
    text = Elements(page).text
    assert all(word in text and meaning in text for word, meaning in DEFINITIONS.items())


def with_classes(**classes: float) -> Evaluation:
    """Return an evaluation in which the known and the OOD classes have this recall and AUROC."""
    plain = evaluation()
    ood = plain.oods["svhn"]._replace(
        classes={
            name: OODClassResult(7, None, share, {"cat": 0.75, "dog": 0.25})
            for name, share in classes.items()
        }
    )
    return plain._replace(
        classes={name: ClassResult(9, share, None, 0.5) for name, share in classes.items()},
        oods={"svhn": ood},
    )


def rows(page: str, of: str) -> list[list[str]]:
    """Return the cells of each row of the table with this name, tags left out."""
    table = page.partition(f'aria-label="{of}"')[2].partition("</table>")[0]
    cells = [
        re.findall(r"<t[hd].*?</t[hd]>", row)
        for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
    ]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells[1:]]


def test_known_and_ood_classes_are_listed_from_the_worst() -> None:
    page = render_detector_page([chapter(evaluation=with_classes(good=0.9, bad=0.8))], [], {})
    assert rows(page, "Known classes") == [
        ["bad", "80.0%", "-", "50.0%", "9"], ["good", "90.0%", "-", "50.0%", "9"],
    ]  # fmt: skip
    assert rows(page, "OOD classes") == [
        ["svhn: bad", "80.0%", "-", "cat 75%", "7"], ["svhn: good", "90.0%", "-", "cat 75%", "7"],
    ]  # fmt: skip
    assert "And " not in page


def test_of_many_classes_the_worst_are_listed_and_the_others_counted() -> None:
    shares = {f"class{number:02d}": number / 100 for number in range(MAX_CLASSES + 3)}
    page = render_detector_page([chapter(evaluation=with_classes(**shares))], [], {})
    assert len(rows(page, "Known classes")) == len(rows(page, "OOD classes")) == MAX_CLASSES
    assert "And 3 more, with fewer mistakes." in page
    assert "And 3 more, that are told better." in page


def test_what_has_no_classes_has_no_table_of_them() -> None:
    page = render_detector_page([chapter()], [], {})
    assert "Known classes" not in page
    assert "OOD classes" not in page
    only_ood = with_classes(bad=0.8)._replace(classes={})
    page = render_detector_page([chapter(evaluation=only_ood)], [], {})
    assert "Known classes" not in page
    assert len(rows(page, "OOD classes")) == 1


ESTIMATE: StatedEstimate = {
    "auroc": 0.979,
    "classes": {"cup": 0.991, "laptop": 0.94, "pen": 0.4},
    "accuracy": 0.983,
    "false_alarms": 0.05,
    "images": 1535,
    "method": "each class left out in turn",
}


def bars(page: str) -> list[tuple[str, ...]]:
    """Return name, width and number of each bar."""
    found: list[tuple[str, ...]] = re.findall(
        r'<li><span class="name">(.*?)</span>.*?width: (.*?)%.*?"number">(.*?)</span></li>',
        page,
        re.DOTALL,
    )
    return found


def test_what_to_expect_is_said_and_drawn_from_the_worst_class() -> None:
    page = render_detector_page([chapter(estimate=ESTIMATE)], [], {})
    text = Elements(page).text
    assert "What to expect on things it has never seen" in text
    assert describe_estimate(ESTIMATE) in text
    assert bars(page) == [
        ("pen", "0.0", "40.0%"), ("laptop", "88.0", "94.0%"), ("cup", "98.2", "99.1%"),
    ]  # fmt: skip
    assert "1,535 images · accuracy 98.3% · false alarms 5.0% · each class left out in turn" in text


def test_an_estimate_of_many_classes_shows_the_worst() -> None:
    classes = {f"class {number}": 0.5 + number / 100 for number in range(MAX_BARS + 2)}
    page = render_detector_page([chapter(estimate={"auroc": 0.7, "classes": classes})], [], {})
    assert len(bars(page)) == MAX_BARS
    assert "And 2 more, that are told better." in page
    assert " · " not in page


def test_without_an_estimate_nothing_is_promised() -> None:
    assert "What to expect" not in render_detector_page([chapter()], [], {})


def test_whatever_names_hold_is_text() -> None:
    estimate = {"auroc": 0.5, "classes": {NASTY: 0.5}, "method": NASTY}
    nasty = chapter(NASTY, evaluation=with_classes(**{NASTY: 0.5}), estimate=estimate)
    elements = Elements(render_detector_page([nasty, nasty], [illustration()], {NASTY: NASTY}))
    assert elements.all("script") == []
    assert elements.all("b") == []
    assert elements.all("img")[0]["alt"] == f"says {NASTY}"
    assert elements.text.count(NASTY) >= 10
    assert not [
        name for _, attributes in elements.elements for name in attributes if name[:2] == "on"
    ]


def test_the_files_of_shown_images_are_listed_as_text() -> None:
    with_files = illustration()._replace(file_names=["cat/<b>1</b>.jpg", "caf\udce9\x1b.png"])
    page = render_detector_page([chapter(illustrations=[with_files])], [], {})
    assert "<li><code>cat/&lt;b&gt;1&lt;/b&gt;.jpg</code></li>" in page
    assert "<li><code>caf .png</code></li>" in page.encode().decode()
    assert "Files, from" not in render_detector_page([chapter()], [], {})


def test_a_name_that_is_no_unicode_can_be_written() -> None:
    page = render_detector_page([chapter("caf\udce9 \x00")], [], {"caf\udce9": "\udce9"})
    assert "Report on caf" in page.encode().decode()


def test_nothing_is_asked_of_the_network() -> None:
    page = render_detector_page(
        [chapter()], [illustration()], {"test images": "https://example.org/x"}
    )
    elements = Elements(page)
    links = [
        value
        for _, attributes in elements.elements
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "data", "action", "poster"}
    ]
    assert len(links) > 3
    assert all(link is not None and link.startswith(("data:", "#")) for link in links)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page


def test_every_link_leads_somewhere_on_the_page() -> None:
    elements = Elements(render_detector_page([chapter(), chapter("ce")], [illustration()], {}))
    anchors = {attributes.get("id") for _, attributes in elements.elements}
    links = [link["href"] for link in elements.all("a")]
    assert len(links) == 4
    assert all(link is not None and link[1:] in anchors for link in links)


def test_what_compares_detectors_stands_before_them_and_else_in_the_chapter() -> None:
    tsne = illustration("tsne", wide=True)
    several = render_detector_page([chapter(), chapter("ce")], [tsne], {})
    assert several.index("Side by side") < several.index("tsne ") < several.index("roc ")
    assert 'class="wide"' in several
    single = render_detector_page([chapter()], [tsne], {})
    assert "Side by side" not in single
    assert single.index("detector-1") < single.index("tsne ")


def test_what_makes_numbers_doubtful_is_said() -> None:
    text = Elements(render_detector_page([chapter(seen_in_training=True)], [], {})).text
    assert "some that it was trained on" in text
    uncalibrated = chapter(evaluation=evaluation(detected=None))
    page = render_detector_page([uncalibrated], [], {})
    assert "It has no threshold yet" in page
    assert "detects" not in Elements(page).text.split("Summary")[0]
    assert "<td>-</td>" in page


def test_without_labels_and_ood_sets_there_is_still_a_page() -> None:
    bare = chapter(evaluation=Evaluation(1, None, None, {}, {}))
    assert "mcl was shown 1 test image." in Elements(render_detector_page([bare], [], {})).text


def test_the_same_report_is_the_same_page() -> None:
    assert render_detector_page([chapter()], [], {}) == render_detector_page([chapter()], [], {})
