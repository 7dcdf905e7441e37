"""Rules that hold for the package as a whole."""

import ast
from collections import defaultdict
from pathlib import Path

import oddone

PACKAGE = Path(oddone.__file__).parent


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path.relative_to(PACKAGE).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_module_says_what_it_is_about() -> None:
    silent = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert names.isdisjoint({"utils", "helpers", "base", "common", "manager", "misc"})
