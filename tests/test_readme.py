import re
import subprocess
import sys
from pathlib import Path

import table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_python_snippet_of_the_readme_runs() -> None:
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


def test_every_number_in_the_readme_stands_in_a_record() -> None:
    for name, content in table.tables().items():
        assert table.start_mark(name) + content + table.end_mark(name) in README


def test_every_link_of_the_documents_leads_to_a_file() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    for document in documents:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
