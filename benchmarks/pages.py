"""The pages with tables of measurements, and the records in results/ that these are made of."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
RELIABILITY = ROOT / "docs" / "reliability.md"
SCALE = ROOT / "docs" / "scale.md"
SERVICE = ROOT / "docs" / "guides" / "service.md"

Record = dict[str, Any]


def newest(name: str, kind: str = "speed") -> Record:
    """Return the newest record of a benchmark, with the path of its file."""
    return by_date(name, kind)[-1]


def by_date(name: str, kind: str) -> list[Record]:
    """Return the records of a benchmark, the newest last."""
    return sorted(all_records(name, kind), key=lambda record: record["date"])


def all_records(name: str, kind: str) -> list[Record]:
    """Return the records of a benchmark, each with the path of its file."""
    return [
        json.loads(path.read_text()) | {"file": path.relative_to(ROOT).as_posix()}
        for path in RESULTS.glob(f"*-{kind}-{name}.json")
    ]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], source: str) -> str:
    """Return a table in Markdown, and where its numbers come from below it."""
    lines = [_line(columns), "|---" * len(columns) + "|", *map(_line, rows), "", source]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def link_from(page: Path, record: Record) -> str:
    """Return a link from a page to the file of a record."""
    up = "../" * (len(page.relative_to(ROOT).parts) - 1)
    return f"[{record['name']}]({up}{record['file']})"


def made_on(page: Path, record: Record) -> str:
    """Return on what a record was made, and a link to it."""
    machine = record["machine"]
    return (
        f"On an {machine['processor']} with {machine['system']}, seed {record['seed']}; record: "
        f"{link_from(page, record)}."
    )
