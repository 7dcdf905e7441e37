"""The README: short, true, and what it shows works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_readme_is_short() -> None:
    assert len(README.split()) < 700


def test_every_python_snippet_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})  # noqa: S102


def test_the_example_tells_unseen_digits_apart() -> None:
    command = [sys.executable, ROOT / "examples" / "digits.py"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    numbers = [float(percent) for percent in re.findall(r"([\d.]+)%", printed)]
    assert len(numbers) == 4
    assert all(number > 92 for number in numbers), printed


@pytest.mark.parametrize("page", table.tables_by_page(), ids=lambda page: page.name)
def test_every_table_of_a_page_is_that_of_the_newest_records(page: Path) -> None:
    for name, content in table.tables_by_page()[page].items():
        assert table.start_mark(name) + content + table.end_mark(name) in page.read_text()
