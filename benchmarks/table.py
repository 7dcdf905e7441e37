"""Write the newest speed records of results/ as the table in README.md."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
START = "<!-- speed: written by `python benchmarks/table.py`, checked by the tests -->\n"
END = "<!-- /speed -->"


def main() -> None:
    """Put the table into README.md."""
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(START)
    after = rest.split(END)[1]
    readme.write_text(before + START + speed_table() + END + after)


def speed_table() -> str:
    """Return the table as Markdown."""
    loss, density = newest("loss"), newest("density")
    augmentation, training, decoding = (
        newest(name) for name in ("augmentation", "training", "decoding")
    )
    rows = [
        (f"{row['ours']}, {loss['rows']:,} x {loss['dim']}, forward and backward", row)
        for row in loss["speed"]
    ]
    for part in ("fit", "distances"):
        content = density[part]
        size = f"{content['rows']:,} x {density['dim']}, {density['groups']} groups"
        rows += [(f"{row['ours']}, {size}", row) for row in content["speed"]]
    pixels = augmentation["size"]
    rows += [
        (f"{row['ours']}, {row['rows']:,} images of {pixels} x {pixels}", row)
        for row in augmentation["speed"]
    ]
    rows += [
        (f"{row['ours']}, preset {training['preset']}, {training['views_per_step']} views", row)
        for row in training["speed"]
    ]
    rows += [
        (f"{row['ours']} of {decoding['photos']} photographs to {row['size']} pixels", row)
        for row in decoding["speed"]
    ]
    alone, ours, peer, _ = loss["memory"].values()
    machine = loss["machine"]
    table = [
        f"| {what} | {row['peer']} | {row['times_as_fast']} "
        f"({row['quartiles'][0]} to {row['quartiles'][1]}) |"
        for what, row in rows
    ]
    memory = (
        f"Peak memory of `mcl_loss` at {loss['memory_rows']:,} rows: {ours:,.0f} MiB, of which "
        f"{alone:,.0f} are torch and the batch; pytorch-metric-learning: {peer:,.0f} MiB."
    )
    records = (loss, density, augmentation, training, decoding)
    links = ", ".join(f"[{record['name']}]({record['file']})" for record in records)
    source = (
        f"Measured on {machine['threads']} threads of an {machine['processor']}; records: {links}."
    )
    head = ["| what | against | times as fast (quartiles) |", "|---|---|---|"]
    return "\n".join([*head, *table, "", memory, "", source]) + "\n"


def newest(name: str) -> dict[str, Any]:
    """Return the newest record of a benchmark, with the path of its file."""
    path = max((ROOT / "results").glob(f"*-speed-{name}.json"))
    record: dict[str, Any] = json.loads(path.read_text())
    return record | {"file": path.relative_to(ROOT).as_posix()}


if __name__ == "__main__":
    main()
