"""The table of docs/performance.md on parity: exported graphs beside the detectors themselves."""

from collections.abc import Callable, Sequence
from itertools import groupby

from pages import Record, table

Link = Callable[[Record], str]


def parity_table(records: Sequence[Record], link: Link) -> str:
    """Return how far scores are off, and how many labels and verdicts are others, by encoder.

    An encoder's figures are those of its newest record; the records come with the newest last.
    """
    newest: dict[str, tuple[Record, list[Record]]] = {}
    for record in records:
        for encoder, rows in groupby(record["rows"], key=lambda row: row["encoder"]):
            newest[encoder] = record, list(rows)
    columns = [
        "encoder",
        "file",
        "detectors",
        "scores off, at most",
        "sums of rules off, at most",
        "other labels",
        "other verdicts",
    ]
    cells = []
    shown: list[Record] = []
    for _, rows in newest.values():
        for file in ("onnx", "pt2"):
            of_file = [row for row in rows if row["file"] == file]
            if of_file:
                cells.append(_cells(of_file))
        shown += rows
    near_zero = max(row["largest_score"] for row in shown if len(row["rules"]) > 1)
    files = {record["file"]: record for record, _ in newest.values()}
    machines = " and ".join(
        sorted({f"an {made['machine']['processor']}" for made in files.values()})
    )
    source = (
        f"{_others(shown)}{_limits(shown)} Relative to its own value, a sum of rules near zero is "
        f"off by up to {near_zero:.1e}. On one thread of {machines}, seed 0; "
        f"record{'s' if len(files) > 1 else ''}: {', '.join(map(link, files.values()))}."
    )
    return table(columns, cells, source)


def _cells(rows: Sequence[Record]) -> Sequence[str]:
    """Return the cells of the line of one encoder and kind of file."""
    relative = max(row["largest_score"] for row in rows if len(row["rules"]) == 1)
    # A sum of rules is zero for a usual image: relative to that, any difference is large.
    spread = max(row["largest_apart"] / row["deviation"] for row in rows if len(row["rules"]) > 1)
    return (
        f"{rows[0]['encoder']}, {rows[0]['size']} pixels",
        rows[0]["file"],
        f"{len(rows)}",
        f"{relative:.1e}",
        f"{spread:.1e} deviations",
        f"{sum(row['labels'] for row in rows)}",
        f"{sum(row['verdicts'] for row in rows)}",
    )


def _others(rows: Sequence[Record]) -> str:
    """Return how many labels and verdicts are others, and how near they were to being so."""
    images = sum(row["images"] for row in rows)
    labels, verdicts = (
        [margin for row in rows for margin in row[f"margins_of_other_{name}"]]
        for name in ("labels", "verdicts")
    )
    told = f"Of {images:,} verdicts, {len(labels)} labels and {len(verdicts)} decisions are others."
    if labels:
        told += (
            f" Where a label is another, the two likeliest classes were at most "
            f"{max(labels):.1e} apart."
        )
    if verdicts:
        told += f" Where a decision is, the score was within {max(verdicts):.1e} of the threshold."
    return told


def _limits(rows: Sequence[Record]) -> str:
    """Return how far the worst scores that miss the aim are from those in float64."""
    exact = [row["against_float64"] for row in rows if "against_float64" in row]
    if not exact:
        return ""
    torch, file = (max(each[name] for each in exact) for name in ("torch", "file"))
    return (
        f" Where a detector misses the aim, its worst score is off by up to {torch:.1e} in torch "
        f"and by up to {file:.1e} in the file from that by the network in float64."
    )
