"""The page in a real browser: drop, look, sort, download, judge; and nothing complains."""

import csv
import io
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from running_server import served_in_thread

from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]
PHONE, DESK = {"width": 375, "height": 800}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def address(tiny_detector: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where a service answers that runs in a thread of this process."""
    feedback = tmp_path_factory.mktemp("page") / "feedback.sqlite"
    settings = ServiceSettings(decoders=1, file_bytes=20 * 2**20)
    service = Service({"tiny": tiny_detector, "again": tiny_detector}, settings, feedback=feedback)
    with served_in_thread(service) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


class Visit:
    """A page that is looked at, and all that the browser complains of."""

    def __init__(self, browser: Any, address: str, **how: object) -> None:
        self.context = browser.new_context(**how)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((address, "data:", "blob:"))
                else self.elsewhere.append(request.url)
            ),
        )
        self.page.goto(f"{address}/")
        self.wait("document.getElementById('about').textContent.includes('3 classes')")

    def wait(self, expression: str) -> None:
        """Wait until it is true; Playwright's own way to wait would need a laxer policy."""
        began = time.monotonic()
        while not self.page.evaluate(expression):
            assert time.monotonic() - began < 30, expression
            time.sleep(0.05)

    def drop(self, paths: list[Path]) -> None:
        """Drop files on the page, all at once, and wait until it has looked at them."""
        before = self.page.locator("#rows tr").count()
        self.page.set_input_files("#files", paths)
        self.wait(
            f"document.querySelectorAll('#rows tr').length === {before + len(paths)} "
            f"&& !document.getElementById('progress').textContent.startsWith('Looking')"
        )

    def tab_to(self, selector: str) -> None:
        """Press Tab until that has the focus."""
        for _ in range(20):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(f"document.activeElement.matches('{selector}')"):
                return
        raise AssertionError(f"no Tab leads to {selector}")

    def drag(self, paths: list[Path]) -> None:
        """Drag files over the page and let go of them, as a mouse does."""
        contents = [[path.name, path.read_bytes().hex()] for path in paths]
        self.page.evaluate(
            """contents => {
                const dataTransfer = new DataTransfer();
                for (const [name, hex] of contents) {
                    const bytes = Uint8Array.from(hex.match(/../g), (each) => parseInt(each, 16));
                    dataTransfer.items.add(new File([bytes], name, {type: "image/png"}));
                }
                const drop = document.getElementById("drop");
                const how = {dataTransfer, bubbles: true, cancelable: true};
                const over = new DragEvent("dragover", how);
                drop.dispatchEvent(over);
                if (!over.defaultPrevented) throw new Error("nothing may be dropped here");
                if (!drop.classList.contains("over")) throw new Error("it does not show that");
                drop.dispatchEvent(new DragEvent("drop", how));
            }""",
            contents,
        )

    def fits(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.fixture(scope="module")
def files(pictures: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a normal, an odd, a broken, two large files, and one that is no picture."""
    folder = tmp_path_factory.mktemp("dropped")
    noise = np.random.default_rng(0).integers(0, 255, (16, 16, 3)).astype(np.uint8)
    odd = io.BytesIO()
    Image.fromarray(255 - noise).save(odd, "PNG")
    contents = {
        "normal.png": pictures["1.png"],
        "=1+1;<img src=x onerror=alert(1)>.png": odd.getvalue(),
        "broken.png": pictures["2.png"][:100],
        "large.png": pictures["3.png"] + bytes(21 * 2**20),
        "heavy.png": pictures["4.png"] + bytes(19 * 2**20),
        "notes.txt": b"no picture at all",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents}


def test_dropped_files_get_verdicts_or_reasons_that_can_be_sorted_downloaded_and_judged(
    browser: Any, address: str, files: dict[str, Path]
) -> None:
    visit = Visit(browser, address, viewport=DESK)
    page = visit.page
    visit.drop(list(files.values()))
    page.wait_for_selector("#detail:not([hidden])")
    assert page.locator("#views img").count() == 8
    assert page.locator("#neighbours img").count() == 6
    assert page.locator("#strip svg title").count() == 1
    assert page.text_content("#headline").startswith("This image is")
    rows = {row.split("\n")[0]: row for row in page.locator("#rows tr").all_inner_texts()}
    assert rows.keys() == files.keys()  # escaped, or the name would be a picture
    assert "unreadable" in rows["broken.png"]
    assert "not an image of a known format" in rows["notes.txt"]
    assert "21.0 MB" in rows["large.png"]
    assert "unreadable" not in rows["heavy.png"]
    page.click("thead button[data-key=score]")
    scores = [float(text) for text in page.locator("#rows td:nth-child(4)").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    assert page.get_attribute("th:nth-child(4)", "aria-sort") == "descending"
    with page.expect_download() as download:
        page.click("#csv")
    table = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    names = {row["name"]: row for row in table}
    assert "'=1+1;<img src=x onerror=alert(1)>.png" in names  # no spreadsheet runs it
    assert float(names["normal.png"]["score"]) == pytest.approx(min(scores), abs=5)
    page.click("#wrong")
    visit.wait("document.getElementById('said').textContent.startsWith('Stored')")
    visit.wait("document.getElementById('drift').textContent.includes('3 pictures')")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")
    page.click("#clear")
    assert page.is_hidden("#all")
    assert visit.complaints == []
    assert visit.elsewhere == []
    visit.context.close()


def test_files_are_dragged_onto_the_page_and_the_table_is_used_by_keyboard(
    browser: Any, address: str, files: dict[str, Path]
) -> None:
    visit = Visit(browser, address, viewport=DESK)
    page, names = visit.page, ["normal.png", "broken.png"]
    visit.drag([files[name] for name in names])
    visit.wait("document.querySelectorAll('#rows tr').length === 2")
    assert not page.evaluate("document.getElementById('drop').classList.contains('over')")
    assert page.locator("#rows th").all_inner_texts() == names
    page.focus("thead button[data-key=name]")
    page.keyboard.press("Enter")
    assert page.locator("#rows th").all_inner_texts() == sorted(names)
    assert page.get_attribute("th:nth-child(1)", "aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert page.locator("#rows th").all_inner_texts() == sorted(names, reverse=True)
    visit.tab_to("#rows tr:nth-child(2) button")
    page.keyboard.press("Enter")
    visit.wait("document.querySelector('#rows tr.chosen th').innerText === 'broken.png'")
    assert page.get_attribute("#rows tr:nth-child(2) button", "aria-current") == "true"
    visit.wait("document.activeElement.id === 'problem'")
    visit.tab_to("#rows tr:nth-child(1) button")
    page.keyboard.press("Enter")
    visit.wait("document.activeElement.id === 'headline'")
    assert page.is_hidden("#problem")  # it was of the other picture
    assert visit.complaints == []
    visit.context.close()


def test_answers_on_pictures_that_were_cleared_come_too_late(
    browser: Any, address: str, files: dict[str, Path]
) -> None:
    visit = Visit(browser, address, viewport=DESK)
    page = visit.page
    page.evaluate(
        """() => {  // an answer that is on its way already comes in spite of being given up
            const real = window.fetch;
            window.asked = [];
            window.held = [];
            window.fetch = async (address, options) => {
                window.asked.push(address);
                if (window.asked.length === 1) await new Promise((go) => window.held.push(go));
                return real(address, {...options, signal: undefined});
            };
        }"""
    )
    page.set_input_files("#files", [files["normal.png"]])
    visit.wait("held.length === 1")
    page.click("#clear")
    assert page.text_content("#progress") == ""
    page.evaluate("held[0]()")
    visit.drop([files["heavy.png"]])
    page.wait_for_selector("#detail:not([hidden])")
    assert page.locator("#rows th").all_inner_texts() == ["heavy.png"]
    assert page.text_content("#name") == "heavy.png"
    addresses = [address.partition("?")[0] for address in page.evaluate("asked")]
    assert addresses == ["v1/score", "v1/score", "v1/model", "v1/explain"]
    assert visit.complaints == []
    visit.context.close()


@pytest.mark.parametrize(("button", "said"), [("right", "normal"), ("wrong", "anomalous")])
def test_what_is_said_is_said_of_the_verdict_that_is_shown(
    browser: Any, address: str, files: dict[str, Path], button: str, said: str
) -> None:
    visit = Visit(browser, address, viewport=DESK)
    visit.page.evaluate(
        """() => {  // as where an adaptive detector scores by fewer views than it explains by
            const real = window.fetch;
            window.fetch = async (address, options) => {
                if (address === "v1/feedback") window.sent = JSON.parse(options.body);
                const answer = await (await real(address, options)).json();
                for (const image of answer.images || []) image.anomalous = true;
                if (answer.image) answer.image.anomalous = false;
                return Response.json(answer);
            };
        }"""
    )
    visit.drop([files["normal.png"]])
    visit.page.wait_for_selector("#detail.normal:not([hidden])")
    visit.page.click(f"#{button}")
    visit.wait("document.getElementById('said').textContent.startsWith('Stored')")
    assert visit.page.evaluate("sent.said") == said
    visit.context.close()


def test_a_row_that_is_chosen_on_a_phone_brings_its_verdict_into_view(
    browser: Any, address: str, files: dict[str, Path]
) -> None:
    visit = Visit(browser, address, viewport=PHONE)
    visit.drop([files["normal.png"], files["heavy.png"]])
    visit.page.wait_for_selector("#detail:not([hidden])")
    visit.page.click("#rows tr:nth-child(2) button")
    visit.wait("document.getElementById('name').textContent === 'heavy.png'")
    visit.wait(
        "(({top, bottom}) => top >= 0 && bottom <= innerHeight)"
        "(document.getElementById('headline').getBoundingClientRect())"
    )
    visit.context.close()


@pytest.mark.parametrize(
    ("scheme", "viewport"), [("dark", PHONE), ("light", DESK)], ids=["dark phone", "light desk"]
)
def test_everybody_can_use_the_pages(
    browser: Any, address: str, files: dict[str, Path], scheme: str, viewport: dict[str, int]
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    ).Axe()
    visit = Visit(browser, address, viewport=viewport, color_scheme=scheme)
    visit.drop(list(files.values())[:3])
    visit.page.wait_for_selector("#detail:not([hidden])")
    assert visit.fits()
    found = axe.run(visit.page)
    assert found.violations_count == 0, found.generate_report()
    visit.page.goto(f"{address}/docs")
    visit.page.wait_for_selector("section.card")
    assert visit.fits()
    found = axe.run(visit.page)
    assert found.violations_count == 0, found.generate_report()
    assert visit.complaints == []
    assert visit.elsewhere == []
    visit.context.close()


def test_the_api_below_a_path_of_its_own_is_shown_with_it(browser: Any, address: str) -> None:
    visit = Visit(browser, address, viewport=DESK)
    visit.page.route(
        "**/inspect/**",
        lambda route: route.continue_(url=route.request.url.replace("/inspect/", "/")),
    )
    visit.page.goto(f"{address}/inspect/docs")
    visit.page.wait_for_selector("section.card")
    commands = visit.page.locator("section.card > pre").all_inner_texts()
    assert f"curl -F files=@photo.jpg {address}/inspect/v1/score" in commands
    assert all(f" {address}/inspect/" in command for command in commands)
    visit.context.close()


def test_pictures_come_from_the_clipboard_and_the_camera_too(browser: Any, address: str) -> None:
    visit = Visit(browser, address, viewport=DESK)
    page = visit.page
    page.evaluate(
        """async () => {
            const canvas = document.createElement("canvas");
            canvas.width = canvas.height = 20;
            const blob = await new Promise(done => canvas.toBlob(done));
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([blob], "pasted.png", {type: "image/png"}));
            dispatchEvent(new ClipboardEvent("paste", {clipboardData}));
        }"""
    )
    page.wait_for_selector("#rows tr")
    page.click("#open-camera")
    visit.wait("document.getElementById('video').videoWidth > 0")
    page.click("#take")
    visit.wait("document.querySelectorAll('#rows tr').length === 2")
    page.click("#close-camera")
    assert page.is_hidden("#camera")
    names = page.locator("#rows th").all_inner_texts()
    assert names[0] == "pasted.png"
    assert names[1].startswith("camera ")
    assert visit.complaints == []
    visit.context.close()
