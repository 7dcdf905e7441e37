"""Write README.md and docs/ as HTML, and the API reference, into build/docs/; works offline."""

import html
import pkgutil
import re
import shutil
import sys
from pathlib import Path

import markdown2

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "docs"

EXTRAS = ["fenced-code-blocks", "header-ids", "tables", "strike", "cuddled-lists"]
LINK = re.compile(r'((?:href|src)=")(?![a-z]+:|#)([^"#]+)')

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 56rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif }}
img {{ max-width: 100% }}
pre {{ padding: 0.8rem; background: #f4f4f4; overflow-x: auto }}
table {{ display: block; overflow-x: auto; border-collapse: collapse }}
td, th {{ border: 1px solid #ccc; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top }}
</style>
<nav><a href="{root}README.html">oddone</a> · <a href="{root}docs/index.html">documents</a> ·
<a href="{root}api/oddone.html">API</a></nav>
{body}
</html>
"""


def main() -> None:
    """Build the site anew."""
    shutil.rmtree(SITE, ignore_errors=True)
    write_pages(SITE)
    write_api(SITE / "api", public_modules())
    sys.stdout.write(f"the site is {SITE.relative_to(ROOT)}/README.html\n")


def write_pages(site: Path) -> None:
    """Write every document as a page in the same place, and copy the files that pages link to."""
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        place = document.relative_to(ROOT)
        body = markdown2.markdown(document.read_text(encoding="utf-8"), extras=EXTRAS)
        for _, target in LINK.findall(body):
            _copy((document.parent / target).resolve(), site)
        text = PAGE.format(
            title=html.escape(place.stem),
            root="../" * (len(place.parts) - 1),
            body=LINK.sub(_to_page, body),
        )
        page = (site / place).with_suffix(".html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


def write_api(folder: Path, modules: list[str]) -> None:
    """Write the API reference of the modules, from their docstrings."""
    import pdoc  # noqa: PLC0415  (imports slowly, and is needed here only)

    import oddone  # noqa: PLC0415

    # pdoc looks for names in the module's dictionary, where these are not before their first use.
    vars(oddone).update({name: getattr(oddone, name) for name in oddone.__all__})
    pdoc.render.configure(docformat="numpy", show_source=True)
    pdoc.pdoc(*modules, output_directory=folder)


def public_modules() -> list[str]:
    """Return the package and its rooms, but for the command line, which has a help of its own."""
    import oddone  # noqa: PLC0415

    rooms = [module.name for module in pkgutil.iter_modules(oddone.__path__)]
    return ["oddone", *(f"oddone.{room}" for room in rooms if room not in {"cli", "__main__"})]


def _to_page(link: re.Match[str]) -> str:
    return link[1] + re.sub(r"\.md$", ".html", link[2])


def _copy(file: Path, site: Path) -> None:
    """Copy a file that a page links to, unless it becomes a page itself."""
    if file.suffix != ".md" and file.is_file():
        copy = site / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


if __name__ == "__main__":
    main()
