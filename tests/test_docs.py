"""What the documents show works, and their links lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import build_docs
import oddone

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
WITH_PYTHON = [
    path for path in DOCUMENTS if path.parent != ROOT and "```python" in path.read_text()
]


@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda path: path.name)
def test_every_python_snippet_of_a_document_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for snippet in re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL):
        exec(compile(snippet, document.name, "exec"), {})  # noqa: S102


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert dead_links(document) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    other, document = tmp_path / "other.md", tmp_path / "here.md"
    other.write_text("# Who is who\n\n## `mcl_loss`, twice\n\n## `mcl_loss`, twice\n")
    document.write_text(
        "# Here\n[a](other.md) [b](other.md#who-is-who) [c](other.md#mcl_loss-twice-1) [d](#here)"
        "\n`[no link](in-code.md)` [site](https://example.org/x) ![e](gone.png)"
        "\n```\n[no link](in-a-block.md)\n# no heading\n```\n[f](other.md#gone) [g](#no-heading)"
    )
    assert dead_links(document) == ["gone.png", "other.md#gone", "#no-heading"]


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    pages = {path.resolve() for path in ROOT.glob("docs/**/*.md")} - {index.resolve()}
    assert pages - reached == set()


def dead_links(document: Path) -> list[str]:
    """Return the relative links of a document whose file or heading does not exist."""
    dead = []
    for link in links(document):
        file, _, anchor = link.partition("#")
        target = document.parent / file if file else document
        is_page = target.suffix == ".md" and target.is_file()
        if not target.exists() or (anchor and is_page and anchor not in anchors(target)):
            dead.append(link)
    return dead


def links(document: Path) -> list[str]:
    """Return the targets of the relative links and pictures of a document, in order."""
    text = re.sub(r"`[^`\n]*`", "", without_code_blocks(document))
    return re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", without_code_blocks(document), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        copies = (f"{anchor}-{number}" if number else anchor for number in range(len(found) + 1))
        found.add(next(each for each in copies if each not in found))
    return found


def without_code_blocks(document: Path) -> str:
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = "\n".join(layer.replace("oddone.", "") for layer in layers)
    assert f"```\n{shown}\n```" in (ROOT / "docs" / "architecture.md").read_text()


def test_the_architecture_names_every_room() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Who may import")[0]
    package = ROOT / "src" / "oddone"
    rooms = {path.stem for path in package.iterdir() if path.suffix in ("", ".py")}
    rooms -= {"__init__", "__main__", "__pycache__"}
    assert {room for room in rooms if f"`{room}`" not in table} == set()


def test_every_link_of_the_site_leads_to_a_page_and_a_heading(tmp_path: Path) -> None:
    build_docs.write_pages(tmp_path)
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) == len(DOCUMENTS)
    for page in pages:
        for link in re.findall(r'(?:href|src)="(?![a-z]+:)([^"]+)"', page.read_text()):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if (tmp_path / "api").resolve() in target.parents:
                continue  # the API reference is not built here
            assert target.exists(), f"{page.name} links to {link}"
            assert not anchor or f'id="{anchor}"' in target.read_text(), f"{page.name}: {link}"


def test_the_api_reference_shows_what_the_facade_offers(tmp_path: Path) -> None:
    build_docs.write_api(tmp_path, ["oddone"])
    page = (tmp_path / "oddone.html").read_text()
    missing = [name for name in oddone.__all__ if f'id="{name}"' not in page]
    assert missing == []
    assert "false_alarms" in page
