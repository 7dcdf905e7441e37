"""Write the newest records of `oddone bench` in results/ as the page docs/results.md."""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from oddone.bench import TABLES, Record, as_markdown, cpu_scale, read_record
from oddone.bench.record import ImagesRecord, RowRecord
from oddone.bench.tables import ACCURACY, OOD_NAMES, SCALING, Column
from oddone.data.cifar import CIFAR10
from oddone.report.figures import illustrate_scaling
from oddone.report.style import svg_for_pages

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "results.md"
PICTURE = PAGE.parent / "images" / "scaling.svg"
COMMAND = "python benchmarks/results_page.py"

SAME_NETWORK, TWO_NETWORKS = 0.5, 2.0
"""From how many points on a difference counts."""
DECISION = "[decision 6](decisions/0006-the-cpu-preset.md)"

CLAIMS = {
    "SEI above one view": "An image scored by eight rotated and mirrored views of it, together, is "
    "scored better than by itself.",
    "rotation task above none": "A network that also has to tell by how much an image is rotated "
    "detects OOD images better than one that never sees rotated images.",
    "rotation task above augmentation": "It is the task that helps: rotated images alone, "
    "without having to tell the rotation, help less.",
    "SPA above none": "Pulling images of one class together (the SPA term of the loss) helps; "
    "neither network has the rotation task.",
    "MCL above SupCLR": "Masked contrastive learning is better than supervised contrastive "
    "learning.",
    "MCL + SEI above maximum softmax": "The whole method is better than a classifier that finds "
    "odd what it is unsure of.",
    "w-avg above avg": "Views are better fused by the weighted average than by the plain one.",
    "w-avg above max": "Views are better fused by the weighted average than by trusting the most "
    "familiar one.",
    "MCL above MCL fine-tuned": "Fine-tuning MCL with cross-entropy, and judging by its softmax, "
    "finds odd images less well.",
}
"""What the paper says, in plain words."""


class Ordering(NamedTuple):
    """Two rows of a table, of which the paper finds the first better."""

    claim: str
    case: str
    table: str
    better: tuple[str, ...]
    worse: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.claim} ({self.case})" if self.case else self.claim


ORDERINGS = (
    Ordering(
        "SEI above one view",
        "MCL",
        "paper-sei",
        ("MCL + 8-way SEI", "w-avg"),
        ("MCL + w/o SEI", "-"),
    ),
    Ordering(
        "SEI above one view",
        "cross-entropy and rotation task",
        "paper-main",
        ("Auxiliary Rotation + SEI",),
        ("Auxiliary Rotation",),
    ),
    Ordering("rotation task above none", "one view", "paper-mcl", ("MCL",), ("MCL (w/o aux)",)),
    *(
        Ordering(claim, case, "paper-aux", ("MCL + Aux", fused), (without, fused))
        for claim, case, without, fused in (
            ("rotation task above none", "SEI", "MCL + w/o Aux", "w-avg"),
            ("rotation task above augmentation", "one view", "MCL + DA", "-"),
            ("rotation task above augmentation", "SEI", "MCL + DA", "w-avg"),
        )
    ),
    Ordering("SPA above none", "", "paper-mcl", ("MCL (w/o aux)",), ("MCL (w/o SPA, w/o aux)",)),
    Ordering("MCL above SupCLR", "one view", "paper-supclr", ("MCL",), ("SupCLR",)),
    # Both are ResNet-18 in the paper.
    Ordering("MCL above SupCLR", "MCL with SEI", "paper-main", ("MCL + SEI ‡",), ("SupCLR ‡",)),
    Ordering("MCL + SEI above maximum softmax", "", "paper-main", ("MCL + SEI",), ("Baseline",)),
    *(
        Ordering(
            f"w-avg above {other}", f"{views} views", "paper-sei", (sei, "w-avg"), (sei, other)
        )
        for other in ("avg", "max")
        for views, sei in ((4, "MCL + 4-way SEI"), (8, "MCL + 8-way SEI"))
    ),
    Ordering("MCL above MCL fine-tuned", "", "paper-mcl", ("MCL",), ("MCL (CE fine-tuned)",)),
)


class Compared(NamedTuple):
    """By how many points the first row of an ordering is above the second."""

    ordering: Ordering
    paper: tuple[str, str]
    """Of accuracy, and of AUROC on CIFAR-100; empty where the paper does not print both."""
    accuracy: float | None
    aurocs: dict[str, float]
    """By OOD set."""
    margin: float
    """From where on a difference counts."""

    @property
    def above(self) -> int:
        return sum(points >= self.margin for points in self.aurocs.values())

    @property
    def below(self) -> int:
        return sum(points <= -self.margin for points in self.aurocs.values())


TEMPLATE = """<!-- written by `{command}`, checked by the tests -->

# The paper's tables on a small scale

`oddone bench` has filled them again with a small network. The commands are
[at the end](#making-this-page-again).

## What was measured

{facts}

## What to keep in mind

- **Every method has its own recipe** ([how each is trained](guides/bench.md)). Those of MCL,
  cross-entropy, SupCLR and CSI were searched for on a tenth of the training images and on OOD
  images that are in no table here ({decision}). That of SimCLR has its paper's augmentation, and
  all else of MCL's.
- **Equal minutes are not equal steps.** A network whose steps cost more has made fewer of them.
- **Chance.** The numbers are those of {seeds}. Two seeds of the same settings have differed by
  about two points of AUROC and one of accuracy ({decision}).
- **The paper's networks are larger and were trained for longer.** Compare the order of rows, not
  numbers.
{older}
{networks}

## Which of the paper's orderings hold here

{summary}

{claims}

A number in the table is a difference in points: the first named minus the second. It counts from
{same:g} points on where one network scores in two ways, and from {two:g} on where two networks were
trained: the former is our choice, the latter about what another seed changes. A smaller one has a
≈, and counts neither for the paper nor against it. AUROC alone decides, on each OOD set; accuracy
stands beside it.

{differences}

{scaling}## The tables

{tables}

## Making this page again

```sh
{commands}
```

Copy the records that these leave in the folder of `--out` to `results/`, then:

```sh
{command}
```
"""

SCALING_TEMPLATE = """## What another minute buys

![{alt_text}](images/{picture})

{words}

{table}

A crossing is read off straight lines between the minutes that were measured. It is "not by more
than seeds differ" where, before it or after it, the two methods lie closer together than their
standard deviations.

"""

HOLDS, IN_PART, REVERSED, TOO_CLOSE = OUTCOMES = (
    "hold on all OOD sets",
    "hold in part",
    "do not hold",
    "are too close to tell",
)


def main() -> None:
    """Write the page."""
    records = newest_records(RESULTS)
    if not records:
        raise SystemExit("results/ has no record of oddone bench at the scale cpu; put one there")
    PAGE.write_text(page(records))
    for record in by_minutes(records).values():
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(svg_for_pages(illustrate_scaling(record).figure))


def newest_records(folder: Path) -> dict[str, Record]:
    """Return the newest record of each table that has one, by the name of its file.

    One with fewer rows does not stand in for a more complete one that is older.
    """
    records: dict[str, Record] = {}
    for name in TABLES:
        of_table = {path: read_record(path) for path in folder.glob(f"*-bench-{name}-cpu.json")}
        if of_table:
            chosen = max(of_table, key=lambda path: (len(of_table[path].rows), path.name))
            records[chosen.name] = of_table[chosen]
    return records


def page(records: Mapping[str, Record]) -> str:
    """Return the page of some records, which have the names of their files."""
    all_records = list(records.values())
    all_found = compared(all_records)
    return TEMPLATE.format(
        command=COMMAND,
        facts=facts(all_records),
        decision=DECISION,
        older=older(all_records),
        seeds=_each_once(map(_seeds, all_records)),
        networks=networks(all_records),
        summary=summary(all_found),
        claims=claims(all_found),
        same=SAME_NETWORK,
        two=TWO_NETWORKS,
        differences=differences(all_found),
        scaling="".join(itertools.starmap(scaling_section, by_minutes(records).items())),
        tables="\n\n".join(
            section(file, record)
            for file, record in records.items()
            if file not in by_minutes(records)
        ),
        # Without these options, the same command trains and scores all that the table has.
        commands="\n".join(
            dict.fromkeys(
                record.command.removesuffix(" --no-train").replace(" --earlier RECORD", "")
                for record in all_records
            )
        ),
    )


def facts(records: Sequence[Record]) -> str:
    """Return what was measured, with what, where and when."""
    said = {
        "Trained on": map(_training, records),
        "Judged": (f"{_count(record.data.test)} test images" for record in records),
        "OOD sets": map(_oods, records),
        "Networks": (record.scale_words for record in records),
        "Seeds": map(_seeds, records),
        "Machine": (record.machines for record in records),
        "Dates": sorted(record.date[:10] for record in records),
        "Versions": map(_versions, records),
    }
    return "\n".join(f"- **{name}:** {_each_once(words)}" for name, words in said.items())


def older(records: Sequence[Record]) -> str:
    """Return which tables were filled before methods had recipes of their own, if any."""
    today = cpu_scale(1.0).methods["mcl"].model.encoder_name
    names = [record.table for record in records if today not in record.scale_words]
    if not names:
        return ""
    return (
        f"- **Older than the recipes:** {', '.join(names)}. There every method has the settings of "
        f"MCL and a narrow\n  ResNet, so that cross-entropy, among others, is weaker than it need "
        f"be; minutes were by the clock; and the\n  rows with eight views were recorded with "
        f"Gaussians fitted on mirrored views too\n"
        f"  ([what that changes](paper.md#mirrored-training-images)).\n"
    )


def networks(records: Sequence[Record]) -> str:
    """Return how long each network was trained, those of several tables once."""
    by_key = {model.key: model for record in records for model in record.models}
    rows = [
        [
            model.name,
            by_key[model.start].name if model.start else "",
            f"{model.settings['seed']}",
            f"{model.minutes:.1f}",
            "" if model.processor_minutes is None else f"{model.processor_minutes:.1f}",
            f"{model.steps:,}",
        ]
        for model in by_key.values()
    ]
    head = ["network", "fine-tuned from", "seed", "minutes", "processor minutes", "steps"]
    return _table(head, rows, numbers=range(2, len(head)))


def compared(records: Sequence[Record]) -> list[Compared]:
    """Return the orderings whose tables have been filled."""
    by_table = {record.table: record for record in records}
    return [
        compare(ordering, by_table[ordering.table])
        for ordering in ORDERINGS
        if ordering.table in by_table
    ]


def compare(ordering: Ordering, record: Record) -> Compared:
    """Return how far the rows of an ordering lie apart."""
    rows = {row.names: row for row in record.rows}
    better, worse = rows[ordering.better], rows[ordering.worse]
    return Compared(
        ordering,
        (
            _paper_difference(record, better, worse, ACCURACY),
            _paper_difference(record, better, worse, Column("auroc", "cifar100")),
        ),
        _difference(better, worse, ACCURACY) if better.numbers(ACCURACY) else None,
        {name: _difference(better, worse, Column("auroc", name)) for name in record.data.oods},
        SAME_NETWORK if better.model == worse.model else TWO_NETWORKS,
    )


def outcome(found: Compared) -> str:
    """Return what became of an ordering: one of OUTCOMES, by AUROC alone."""
    if found.above == len(found.aurocs):
        return HOLDS
    if found.above:
        return IN_PART
    return REVERSED if found.below else TOO_CLOSE


def verdict(found: Compared) -> str:
    """Return what became of an ordering, with numbers."""
    sets = len(found.aurocs)
    return {
        HOLDS: f"holds on all {sets} OOD sets",
        IN_PART: f"holds on {found.above} of {sets}, reversed on {found.below or 'none'}",
        REVERSED: f"does not hold, reversed on {found.below} of {sets}",
        TOO_CLOSE: "too close to tell",
    }[outcome(found)]


def summary(all_found: Sequence[Compared]) -> str:
    """Return which orderings hold, hold in part, do not hold, and which nobody can tell."""
    names: dict[str, list[str]] = {each: [] for each in OUTCOMES}
    for found in all_found:
        names[outcome(found)].append(found.ordering.name)
    return "\n\n".join(
        f"**{len(names[each])} of {len(all_found)} {each}:** {'; '.join(names[each])}."
        for each in OUTCOMES
        if names[each]
    )


def claims(all_found: Sequence[Compared]) -> str:
    """Return what the orderings mean."""
    names = dict.fromkeys(found.ordering.claim for found in all_found)
    return "\n".join(f"- **{name}**: {CLAIMS[name]}" for name in names)


def differences(all_found: Sequence[Compared]) -> str:
    """Return the orderings with the paper's differences and ours."""
    oods = list(dict.fromkeys(name for found in all_found for name in found.aurocs))
    titles = [Column("auroc", name).title for name in oods]
    head = ["ordering", "paper: Acc", "paper: CIFAR-100 AUROC", "here: Acc", *titles, "verdict"]
    rows = [
        [
            found.ordering.name,
            *found.paper,
            _points(found.accuracy, found.margin),
            *(_points(found.aurocs.get(name), found.margin) for name in oods),
            verdict(found),
        ]
        for found in all_found
    ]
    return _table(head, rows, numbers=range(1, len(head) - 1))


def section(file: str, record: Record) -> str:
    """Return the table of a record."""
    source = f"Command: `{record.command}`; record: [{file}](../results/{file})."
    return f"{as_markdown([record])}\n{source}"


def by_minutes(records: Mapping[str, Record]) -> dict[str, Record]:
    """Return the record of methods by minutes, if there is one."""
    return {file: record for file, record in records.items() if record.table == SCALING.name}


def scaling_section(file: str, record: Record) -> str:
    """Return what another minute buys, and where curves cross."""
    illustration = illustrate_scaling(record)
    return SCALING_TEMPLATE.format(
        alt_text=illustration.alt_text,
        picture=PICTURE.name,
        words=illustration.caption,
        table=section(file, record),
    )


def _difference(better: RowRecord, worse: RowRecord, column: Column) -> float:
    """Return a difference in points as it is shown, so that a reader sees what is judged."""
    ours, others = better.numbers(column), worse.numbers(column)
    return round(statistics.fmean(ours) - statistics.fmean(others), 1)


def _paper_difference(record: Record, better: RowRecord, worse: RowRecord, column: Column) -> str:
    ours, others = record.paper_number(better, column), record.paper_number(worse, column)
    if ours is None or others is None:
        return ""
    return f"{ours - others:+z.{TABLES[record.table].decimals}f}"


def _points(points: float | None, margin: float) -> str:
    if points is None:
        return ""
    return f"{points:+z.1f}" + (" ≈" if abs(points) < margin else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: range) -> str:
    """Return a Markdown table, some of whose columns are numbers."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def _each_once(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(words))


def _training(record: Record) -> str:
    training = record.data.training
    is_cifar10 = training.classes == CIFAR10.classes
    name = "CIFAR-10" if is_cifar10 else f"{len(training.classes)} classes"
    return f"{training.images:,} images of {name}"


def _count(images: ImagesRecord) -> str:
    some = f" of {images.of:,}" if images.images < images.of else ""
    return f"{images.images:,}{some}"


def _oods(record: Record) -> str:
    oods = record.data.oods
    return ", ".join(f"{OOD_NAMES.get(name, name)} ({_count(oods[name])} images)" for name in oods)


def _seeds(record: Record) -> str:
    return "one seed" if record.seeds == 1 else f"mean of {record.seeds} seeds"


def _versions(record: Record) -> str:
    return ", ".join(f"{package} {version}" for package, version in record.versions.items())


if __name__ == "__main__":
    main()
