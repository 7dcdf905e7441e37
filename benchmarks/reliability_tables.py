"""Tables of docs/reliability.md: faults that were tried, and an hour of soak."""

from itertools import groupby

from pages import RELIABILITY, Record, by_date, link_from, made_on, newest, table
from torture import summed


def faults_table() -> str:
    """Return how often each fault was tried, and how often what was promised did not hold."""
    records = {record["part"]: record for record in by_date("torture", "reliability")}
    trials = summed(
        [
            {"name": name, **row}
            for record in records.values()
            for name, row in record["trials"].items()
        ]
    ).items()
    groups = {
        kind: list(members)
        for kind, members in groupby(trials, key=lambda trial: trial[0].split(": ")[0])
    }
    rows = []
    for kind, members in (groups | {"all": trials}).items():
        names = ", ".join(name.removeprefix(f"{kind}: ") for name, _ in members)
        tried, failed = (sum(row[column] for _, row in members) for column in ("tried", "failed"))
        rows.append((kind, "" if kind == "all" else names, f"{tried:,}", f"{failed:,}"))
    sources = [_source(record) for record in records.values()]
    return table(
        ["fault", "of or with", "times", "failed"],
        rows,
        table(["tests", "of the long form", "on", "seed", "record"], sources, "").rstrip("\n"),
    )


def _source(record: Record) -> list[str]:
    """Return which tests a record is of, how much of them, and on what they ran."""
    machine = record["machine"]
    return [
        record["part"] or "all",
        _extent(record),
        f"{machine['processor']}, {machine['system']}",
        str(record["seed"]),
        link_from(RELIABILITY, record),
    ]


def _extent(record: Record) -> str:
    """Return how much of the long form a record is of."""
    share = f"{record['share']:.0%}"
    failed = any(row["failed"] for row in record["trials"].values())
    return share if record["passed"] or failed else f"{share}, stopped before its end"


def soak_table() -> str:
    """Return what grew and what slowed down while processes worked side by side."""
    record = newest("soak", "reliability")
    columns = [
        "process",
        "images",
        "memory",
        "growth an hour (95 %)",
        "files",
        "threads",
        "images/s of CPU",
    ]
    rows = []
    for name, found in record["processes"].items():
        memory = found["resident_mebibytes"]
        growth = memory["slope"]
        cells = [
            name,
            f"{found['images']:,}",
            f"{memory['last_tenth']:,.0f} MiB, at most {memory['most']:,.0f}",
            f"{growth['per_hour']:+.1f} MiB ({growth['low']:+.1f} to {growth['high']:+.1f})",
            *(
                f"{found[what]['first_tenth']:g} to {found[what]['last_tenth']:g}"
                for what in ("descriptors", "threads", "images_per_cpu_second")
            ),
        ]
        rows.append(cells)
    faults = "; ".join(record["faults"]) or "none"
    length = f"{record['minutes']:g} minutes, the first {record['warm_up']:.0%} of them warm-up."
    source = f"{length} Faults: {faults}. {made_on(RELIABILITY, record)}"
    return table(columns, rows, source)
