"""Tables on how good detectors are: photographs, the demo, presets."""

import statistics

from pages import PERFORMANCE, README, Record, by_date, link_from, made_on, newest


def photographs_table() -> str:
    """Return what `oddone fit` reaches on photographs."""
    record = newest("photographs", kind="quality")
    table = [
        "| `oddone fit` with | accuracy | AUROC, unseen classes | seconds | memory |",
        "|---|---|---|---|---|",
    ]
    table += [
        f"| {_encoder_name(row)} | {row['accuracy']:.1%} | {row['auroc']:.1%} | "
        f"{row['seconds']:.0f} | {row['peak_mebibytes']:,.0f} MiB |"
        for row in record["rows"]
    ]
    machine = record["machine"]
    source = (
        f"{machine['threads']} threads of an {machine['processor']}, seed {record['seed']}; "
        f"record: {link_from(README, record)}."
    )
    return "\n".join([*table, "", source]) + "\n"


def many_photographs_table() -> str:
    """Return what fitting ever more photographs takes."""
    record = newest("many_photographs")
    table = [
        "| photographs | processor time | memory of its own | with pages of the cache |",
        "|---|---|---|---|",
    ]
    table += [
        f"| {row['photographs']:,} | {row['processor_seconds']:.0f} s | "
        f"{row['private_mebibytes']:,.0f} MiB | {row['resident_mebibytes']:,.0f} MiB |"
        for row in record["rows"]
    ]
    source = f"{record['encoder']}, {record['image_size']} pixels. {made_on(PERFORMANCE, record)}"
    return "\n".join([*table, "", source]) + "\n"


def rules_table() -> str:
    """Return the AUROC of each rule on photographs, beside what leaving classes out promised."""
    record = newest("photographs", kind="quality")
    names = list(record["rows"][0]["rules"])
    table = [f"| encoder | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in record["rows"]:
        estimates = row["estimates_of_other_rules"] | {row["rule"]: row["estimated_auroc"]}
        cells = [
            f"{'**' if name == row['rule'] else ''}{row['rules'][name]['auroc']:.1%}"
            f"{'**' if name == row['rule'] else ''}"
            f"{f' ({estimates[name]:.1%})' if name in estimates else ''}"
            for name in names
        ]
        table.append(f"| {_encoder_name(row)} | {' | '.join(cells)} |")
    return "\n".join([*table, "", f"Record: {link_from(PERFORMANCE, record)}."]) + "\n"


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
    table = [
        (
            f"{record['source']}, {record['images']:,} images, {len(splits)} splits, "
            f"{record['known']} known classes in each{head}:"
        ),
        "",
        "| rule | AUROC on unseen classes | estimate | estimate and truth apart in a split |",
        "|---|---|---|---|",
    ]
    for name in splits[0]["true"]:
        true, estimated = (
            [split[kind][name] for split in splits] for kind in ("true", "estimated")
        )
        apart = statistics.mean(abs(a - b) for a, b in zip(true, estimated, strict=True))
        table.append(
            f"| {name} | {statistics.mean(true):.1%} | {statistics.mean(estimated):.1%} | "
            f"{apart:.1%} |"
        )
    chosen = statistics.mean(split["true"][split["chosen"]] for split in splits)
    promised = statistics.mean(split["estimated"][split["chosen"]] for split in splits)
    table.append(f"| the rule chosen in each split | {chosen:.1%} | {promised:.1%} | |")
    return "\n".join([*table, "", f"Record: {link_from(PERFORMANCE, record)}."]) + "\n"


def demo_table() -> str:
    """Return what the demo reaches on the embedded images."""
    record = newest("demo", kind="quality")
    oods = list(next(iter(record["results"].values()))["oods"])
    head = [
        "| method | accuracy | " + " | ".join(f"AUROC, {ood}" for ood in oods) + " |",
        "|---" * (len(oods) + 2) + "|",
    ]
    rows = [
        f"| {name} | {result['accuracy']:.1%} | "
        + " | ".join(f"{result['oods'][ood]['auroc']:.1%}" for ood in oods)
        + " |"
        for name, result in record["results"].items()
    ]
    source = (
        f"{record['minutes_per_network']:g} minutes of training for each of the two networks, "
        f"{record['minutes_in_all']:g} minutes in all on {record['machine']['threads']} threads of "
        f"an {record['machine']['processor']}, seed {record['seed']}; record: "
        f"{link_from(README, record)}."
    )
    return "\n".join([*head, *rows, "", source]) + "\n"


def quality_table() -> str:
    """Return what presets for CPUs reach on CIFAR-10."""
    records = {record["preset"]: record for record in by_date("preset", "quality")}
    return "\n".join(map(_quality_of, records.values()))


def _quality_of(record: Record) -> str:
    rows = record["results"]
    metrics = [name for name in rows[0] if name != "inference" and not name.startswith("spread ")]
    head = [
        f"| preset `{record['preset']}` | {' | '.join(metrics)} |",
        "|---" * (len(metrics) + 1) + "|",
    ]
    lines = [
        f"| {row['inference']} | {' | '.join(_with_spread(row, name) for name in metrics)} |"
        for row in rows
    ]
    used = ", ".join(f"{minutes:.1f}" for minutes in record["processor_minutes"])
    source = (
        f"{record['minutes']:.0f} minutes of two cores: {record['steps']:,} steps; "
        f"{used} minutes of processor time on an {record['machine']['processor']}. Mean and "
        f"standard deviation of {record['seeds']} seeds; record: {link_from(PERFORMANCE, record)}."
    )
    return "\n".join([*head, *lines, "", source]) + "\n"


def _with_spread(row: Record, metric: str) -> str:
    """Return a share in percent, with its standard deviation if there is one; "" if unknown."""
    if metric not in row:
        return ""
    spread = row.get(f"spread {metric}")
    return f"{row[metric]:.1%}" if spread is None else f"{100 * row[metric]:.1f} ± {spread:.1%}"
