"""Tables on how good detectors are: photographs, the demo, presets."""

import statistics
from collections.abc import Sequence

from oddone.api import DEFAULT_ENCODER
from oddone.selection.estimate import SMALLEST_DIFFERENCE
from pages import PERFORMANCE, README, Record, by_date, link_from, made_on, newest, table
from photographs import ENCODERS


def photographs_table() -> str:
    """Return what `oddone fit` reaches on photographs, by the newest record with the default."""
    record = [
        record
        for record in by_date("photographs", "quality")
        if any(row["encoder"] == DEFAULT_ENCODER for row in record["rows"])
    ][-1]
    columns = ["`oddone fit` with", "accuracy", "AUROC, unseen classes", "seconds", "memory"]
    rows = [
        (
            _encoder_name(row),
            f"{row['accuracy']:.1%}",
            f"{row['auroc']:.1%}",
            f"{row['seconds']:.0f}",
            f"{row['peak_mebibytes']:,.0f} MiB",
        )
        for row in record["rows"]
    ]
    machine = record["machine"]
    source = (
        f"{machine['threads']} threads of an {machine['processor']}, seed {record['seed']}; "
        f"record: {link_from(README, record)}."
    )
    return table(columns, rows, source)


def photographs_rows() -> list[Record]:
    """Return the newest row of each encoder, with its record, in the order of the benchmark."""
    rows = {
        (row["encoder"], row["image_size"], row["learn_head"]): row | {"record": record}
        for record in by_date("photographs", "quality")
        for row in record["rows"]
    }
    return [rows[encoder] for encoder in ENCODERS if encoder in rows]


def many_photographs_table() -> str:
    """Return what fitting ever more photographs takes."""
    record = newest("many_photographs")
    columns = ["photographs", "processor time", "memory of its own", "with pages of the cache"]
    rows = [
        (
            f"{row['photographs']:,}",
            f"{row['processor_seconds']:.0f} s",
            f"{row['private_mebibytes']:,.0f} MiB",
            f"{row['resident_mebibytes']:,.0f} MiB",
        )
        for row in record["rows"]
    ]
    source = f"{record['encoder']}, {record['image_size']} pixels. {made_on(PERFORMANCE, record)}"
    return table(columns, rows, source)


def rules_table() -> str:
    """Return the AUROC of each rule on photographs, beside what leaving classes out promised."""
    measured = photographs_rows()
    names = list(measured[0]["rules"])
    rows = []
    for row in measured:
        estimates = row["estimates_of_other_rules"] | {row["rule"]: row["estimated_auroc"]}
        cells = [
            f"{'**' if name == row['rule'] else ''}{row['rules'][name]['auroc']:.1%}"
            f"{'**' if name == row['rule'] else ''}"
            f"{f' ({estimates[name]:.1%})' if name in estimates else ''}"
            for name in names
        ]
        rows.append([_encoder_name(row), *cells])
    links = dict.fromkeys(link_from(PERFORMANCE, row["record"]) for row in measured)
    return table(["encoder", *names], rows, f"Records: {', '.join(links)}.")


def unseen_classes_table() -> str:
    """Return the AUROC of each unseen class of photographs, beside what was promised."""
    measured = [row for row in photographs_rows() if "auroc_of_unseen_classes" in row]
    by_class = [row["auroc_of_unseen_classes"] for row in measured]
    names = sorted(by_class[0], key=lambda name: float(by_class[0][name]))
    worst = names[0]
    numbers = {name: [each[name] for each in by_class] for name in names}
    numbers["all"] = [row["auroc"] for row in measured]
    numbers[f"all but {worst}, on average"] = [
        statistics.fmean(auroc for name, auroc in each.items() if name != worst)
        for each in by_class
    ]
    numbers["what leaving out classes promised"] = [row["estimated_auroc"] for row in measured]
    rows = [[name, *(f"{auroc:.1%}" for auroc in each)] for name, each in numbers.items()]
    links = dict.fromkeys(link_from(PERFORMANCE, row["record"]) for row in measured)
    columns = ["unseen class", *map(_encoder_name, measured)]
    return table(columns, rows, f"Records: {', '.join(links)}.")


def trained_parts_table() -> str:
    """Return what MCL makes of parts of a pretrained encoder, beside the encoder as it is."""
    record = newest("trained_parts", kind="quality")
    sources = record["sources"].values()
    columns = ["what MCL trains", "steps"]
    columns += [f"{name}, {what}" for name in record["sources"] for what in ("one view", "SEI")]
    rows = []
    for rule in ("distance + energy", "distance", "energy", "neighbours"):
        cells = [cell for each in sources for cell in (_percent(each["frozen"][rule]), "")]
        rows.append([f"nothing ({rule})", "", *cells])
    for trained in zip(*(each["trained"] for each in sources), strict=True):
        part = {"head": "a head", "last": "head and last stage", "all": "everything"}
        how = "with rotations" if trained[0]["rotations"] == "task" else "without"
        cells = [_percent(row.get(view)) for row in trained for view in ("one view", "four views")]
        name = f"{part[trained[0]['trained_part']]}, {how}"
        rows.append([name, str(trained[0]["steps"]), *cells])
    about = f"{record['encoder']}, {record['image_size']} pixels. {made_on(PERFORMANCE, record)}"
    return table(columns, rows, about)


def rotations_table() -> str:
    """Return how heads with rotations and without do, by unseen classes and by left-out ones."""
    record = newest("rotations", kind="quality")
    columns = ["source, split", "unseen classes: with rotations, without"]
    columns += ["left-out classes: with, without", "standard error of the difference"]
    rows = []
    for name, source in record["sources"].items():
        for number, split in enumerate(source["splits"], start=1):
            true, told = (
                ", ".join(f"{split[by][way]:.1%}" for way in ("task", "none"))
                for by in ("true", "left_out")
            )
            rows.append([f"{name}, {number}", true, told, f"{split['standard_error']:.1%}"])
    policies = {
        "always": lambda _: True,
        "never": lambda _: False,
        "where left-out classes prefer them, or by half a point at most not": lambda split: (
            split["left_out"]["none"] - split["left_out"]["task"] <= SMALLEST_DIFFERENCE
        ),
    }
    splits = [split for source in record["sources"].values() for split in source["splits"]]
    for policy, learns in policies.items():
        mean = statistics.fmean(
            split["true"]["task" if learns(split) else "none"] for split in splits
        )
        rows.append([f"mean, if a head learns rotations {policy}", f"{mean:.1%}", "", ""])
    about = (
        f"{record['encoder']}, {record['image_size']} pixels, {record['known']} known classes of "
        f"{record['images_per_class']} images at most. {made_on(PERFORMANCE, record)}"
    )
    return table(columns, rows, about)


def _percent(measured: Record | None) -> str:
    """Return an AUROC in percent; nothing where there is none."""
    return "" if measured is None else f"{measured['auroc']:.1%}"


def _encoder_name(row: Record) -> str:
    head = ", MCL head" if row["learn_head"] else ""
    return f"{row['encoder']}, {row['image_size']} pixels{head}"


def estimates_table() -> str:
    """Return how close the estimate by leaving classes out is to the truth, rule by rule."""
    return "\n".join(map(_estimates_of, leave_out_records()))


def leave_out_records() -> list[Record]:
    """Return the newest record of each source, with and without a head."""
    records: dict[tuple[str, bool], Record] = {}
    for record in by_date("leave_out", "quality"):
        records[record["source"], record["learn_head"]] = record
    return [records[key] for key in sorted(records)]


def _estimates_of(record: Record) -> str:
    splits = record["splits"]
    head = ", with an MCL head" if record["learn_head"] else ""
    about = (
        f"{record['source']}, {record['images']:,} images, {len(splits)} splits, "
        f"{record['known']} known classes in each{head}:"
    )
    columns = [
        "rule",
        "AUROC on unseen classes",
        "estimate",
        "too high by (standard error)",
        "apart in a split",
    ]
    rules = {name: [name] * len(splits) for name in splits[0]["true"]}
    rules["the rule chosen in each split"] = [split["chosen"] for split in splits]
    rows = [_estimate_row(name, splits, of_splits) for name, of_splits in rules.items()]
    source = f"Record: {link_from(PERFORMANCE, record)}."
    return f"{about}\n\n{table(columns, rows, source)}"


def _estimate_row(name: str, splits: Sequence[Record], rules: Sequence[str]) -> list[str]:
    """Return a line on the rule that each split is scored by."""
    scored = list(zip(splits, rules, strict=True))
    estimated = [split["estimated"][rule] for split, rule in scored]
    true = [split["true"][rule] for split, rule in scored]
    too_high = [each - truth for each, truth in zip(estimated, true, strict=True)]
    error = statistics.stdev(too_high) / len(too_high) ** 0.5
    return [
        name,
        f"{statistics.mean(true):.1%}",
        f"{statistics.mean(estimated):.1%}",
        f"{statistics.mean(too_high):+.1%} ({error:.1%})",
        f"{statistics.mean(map(abs, too_high)):.1%}",
    ]


def demo_table() -> str:
    """Return what the demo reaches on the embedded images."""
    record = newest("demo", kind="quality")
    oods = list(next(iter(record["results"].values()))["oods"])
    columns = ["method", "accuracy", *(f"AUROC, {ood}" for ood in oods)]
    rows = [
        [
            name,
            f"{result['accuracy']:.1%}",
            *(f"{result['oods'][ood]['auroc']:.1%}" for ood in oods),
        ]
        for name, result in record["results"].items()
    ]
    source = (
        f"{record['minutes_per_network']:g} minutes of training for each of the two networks, "
        f"{record['minutes_in_all']:g} minutes in all on {record['machine']['threads']} threads of "
        f"an {record['machine']['processor']}, seed {record['seed']}; record: "
        f"{link_from(README, record)}."
    )
    return table(columns, rows, source)


def quality_table() -> str:
    """Return what presets for CPUs reach on CIFAR-10."""
    records = {record["preset"]: record for record in by_date("preset", "quality")}
    return "\n".join(map(_quality_of, records.values()))


def _quality_of(record: Record) -> str:
    results = record["results"]
    metrics = [
        name for name in results[0] if name != "inference" and not name.startswith("spread ")
    ]
    columns = [f"preset `{record['preset']}`", *metrics]
    rows = [[row["inference"], *(_with_spread(row, name) for name in metrics)] for row in results]
    used = ", ".join(f"{minutes:.1f}" for minutes in record["processor_minutes"])
    source = (
        f"{record['minutes']:.0f} minutes of two cores: {record['steps']:,} steps; "
        f"{used} minutes of processor time on an {record['machine']['processor']}. Mean and "
        f"standard deviation of {record['seeds']} seeds; record: {link_from(PERFORMANCE, record)}."
    )
    return table(columns, rows, source)


def _with_spread(row: Record, metric: str) -> str:
    """Return a share in percent, with its standard deviation if there is one; "" if unknown."""
    if metric not in row:
        return ""
    spread = row.get(f"spread {metric}")
    return f"{row[metric]:.1%}" if spread is None else f"{100 * row[metric]:.1f} ± {spread:.1%}"
