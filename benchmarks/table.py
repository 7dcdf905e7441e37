"""Write the newest records of results/ as the tables of README.md and of pages of docs/."""

import json
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from engines_table import costs_table, engines_table, first_verdict_table
from parity_table import parity_table
from torture import summed

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
RELIABILITY = ROOT / "docs" / "reliability.md"
SCALE = ROOT / "docs" / "scale.md"
SERVICE = ROOT / "docs" / "guides" / "service.md"
RESULTS = ROOT / "results"
NO_RECORD = "There is no record of `make {}` yet.\n"


def main() -> None:
    """Put the tables into their pages."""
    for page, tables in tables_by_page().items():
        text = page.read_text()
        for name, table in tables.items():
            before, rest = text.split(start_mark(name))
            after = rest.split(end_mark(name))[1]
            text = before + start_mark(name) + table + end_mark(name) + after
        page.write_text(text)


def tables_by_page() -> dict[Path, dict[str, str]]:
    """Return the tables of each page by name, as Markdown."""
    return {
        README: {"photographs": photographs_table(), "demo": demo_table()},
        PERFORMANCE: {
            "rules": rules_table(),
            "estimates": estimates_table(),
            "quality": quality_table(),
            "adaptive": adaptive_table(),
            "export": export_table(),
            "parity": parity_table(_by_date("parity", "quality"), partial(link_from, PERFORMANCE)),
            "speed": speed_table(),
        },
        SCALE: {
            "loss of many processes": loss_of_many_table(),
            "two processes": two_processes_table(),
            "chunks": chunks_table(),
            "engines": engines_table(newest("engines"), partial(link_from, SCALE)),
            "first_verdict": first_verdict_table(
                newest("first_verdict"), partial(link_from, SCALE)
            ),
            "costs": costs_table(
                newest("engines"),
                newest("scoring"),
                newest("decoding"),
                partial(link_from, SCALE),
            ),
        },
        SERVICE: {"load": load_table()},
        RELIABILITY: {
            name: content() if all_records(record, "reliability") else NO_RECORD.format(record)
            for name, record, content in (
                ("faults", "torture", faults_table),
                ("soak", "soak", soak_table),
            )
        },
    }


def start_mark(name: str) -> str:
    """Return the line before a table."""
    return f"<!-- {name}: written by `python benchmarks/table.py`, checked by the tests -->\n"


def end_mark(name: str) -> str:
    """Return the line after a table."""
    return f"<!-- /{name} -->"


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


def estimates_table() -> str:
    """Return how close the estimate by leaving classes out is to the truth, rule by rule."""
    return "\n".join(map(_estimates_of, leave_out_records()))


def leave_out_records() -> list[dict[str, Any]]:
    """Return the newest record of each source, with and without a head."""
    records: dict[tuple[str, bool], dict[str, Any]] = {}
    for record in _by_date("leave_out", "quality"):
        records[record["source"], record["learn_head"]] = record
    return [records[key] for key in sorted(records)]


def _estimates_of(record: dict[str, Any]) -> str:
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


def _encoder_name(row: dict[str, Any]) -> str:
    head = ", MCL head" if row["learn_head"] else ""
    return f"{row['encoder']}, {row['image_size']} pixels{head}"


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
    records = {record["preset"]: record for record in _by_date("preset", "quality")}
    return "\n".join(map(_quality_of, records.values()))


def _quality_of(record: dict[str, Any]) -> str:
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


def _with_spread(row: dict[str, Any], metric: str) -> str:
    """Return a share in percent, with its standard deviation if there is one; "" if unknown."""
    if metric not in row:
        return ""
    spread = row.get(f"spread {metric}")
    return f"{row[metric]:.1%}" if spread is None else f"{100 * row[metric]:.1f} ± {spread:.1%}"


def adaptive_table() -> str:
    """Return what views as needed change, on each data set that was measured."""
    records = {record["source"]: record for record in _by_date("adaptive", "speed")}
    return "\n".join(map(_adaptive_of, records.values()))


def _adaptive_of(record: dict[str, Any]) -> str:
    table = [
        (
            f"| {record['source']} | images | same verdict | views of {record['views']} | "
            f"anomalous (by all views) | AUROC (by all views) |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for row in record["results"]:
        area = ""
        if "auroc_as_needed" in row:
            area = f"{row['auroc_as_needed']:.1%} ({row['auroc_by_all']:.1%})"
        table.append(
            f"| {row['set']} | {row['images']:,} | {row['same_verdict']:.2%} | "
            f"{row['views']:.2f} | {row['anomalous_as_needed']:.1%} "
            f"({row['anomalous_by_all']:.1%}) | {area} |"
        )
    (speed,) = record["speed"]
    low, high = speed["quartiles"]
    source = (
        f"On {record['timed_images']} test images {speed['times_as_fast']} times as fast ({low} to "
        f"{high}). Learned on {record['calibration_images']:,} images, with {record['encoder']} "
        f"after {record['steps']:,} steps; {next(_records_by_machine([record]))}."
    )
    return "\n".join([*table, "", source]) + "\n"


def export_table() -> str:
    """Return how fast exported files are, where their time goes, and what they change."""
    record = newest("export")
    speed = [
        "| network, eight views | file | MB | times as fast (quartiles) | where the time goes |",
        "|---|---|---|---|---|",
    ]
    for row in record["speed"]:
        largest = list(row["profile"].items())[:3]
        shares = ", ".join(f"{operation} {share:.0%}" for operation, share in largest)
        speed.append(
            f"| {row['encoder']}, {row['size']} pixels | {row['precision']} | {row['megabytes']} | "
            f"{row['times_as_fast']} ({row['quartiles'][0]} to {row['quartiles'][1]}) | {shares} |"
        )
    quality = [
        "| images | file | other verdicts | labels | scores off: median (largest) | AUROC (was) |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["quality"]:
        for precision in ("float32", "int8"):
            change = row[precision]
            quality.append(
                f"| {change['images']:,} {row['name']} | {precision} | {change['verdicts']} | "
                f"{change['labels']} | {change['median_score']:.1e} "
                f"({change['largest_score']:.1e}) | {change['auroc']:.1%} "
                f"({change['auroc_before']:.1%}) |"
            )
    machine = record["machine"]
    unseen = [f"{row['unseen']} beside the {row['name']}" for row in record["quality"]]
    source = (
        f"One thread of an {machine['processor']}; record: {link_from(PERFORMANCE, record)}. AUROC "
        f"is against images of unseen classes: {', '.join(unseen)}."
    )
    return "\n".join([*speed, "", *quality, "", source]) + "\n"


def speed_table() -> str:
    """Return the table as Markdown."""
    loss, density = newest("loss"), newest("density")
    augmentation, training, scoring, decoding = (
        newest(name) for name in ("augmentation", "training", "scoring", "decoding")
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
        (f"{row['ours']}, {row['encoder']}, {training['views_per_step']} views", row)
        for row in training["speed"]
    ]
    rows += [
        (f"{row['ours']}, {row['encoder']}, eight views of {row['images']} images", row)
        for row in scoring["speed"]
    ]
    rows += [
        (f"{row['ours']} of {decoding['photos']} photographs to {row['size']} pixels", row)
        for row in decoding["speed"]
    ]
    alone, ours, peer, _ = loss["memory"].values()
    table = [
        f"| {what} | {row['peer']} | {row['times_as_fast']} "
        f"({row['quartiles'][0]} to {row['quartiles'][1]}) |"
        for what, row in rows
    ]
    memory = (
        f"Peak memory of `mcl_loss` at {loss['memory_rows']:,} rows: {ours:,.0f} MiB, of which "
        f"{alone:,.0f} are torch and the batch; pytorch-metric-learning: {peer:,.0f} MiB."
    )
    records = (loss, density, augmentation, training, scoring, decoding)
    source = f"Records: {'; '.join(_records_by_machine(records))}."
    head = ["| what | against | times as fast (quartiles) |", "|---|---|---|"]
    return "\n".join([*head, *table, "", memory, "", source]) + "\n"


def load_table() -> str:
    """Return what the service does under load, beside `detector.score` on the same pictures."""
    record = newest("load")
    detector, half, overload = record["detector"], record["half_load"], record["overload"]
    statuses = ", ".join(f"{count:,} x {name}" for name, count in overload["statuses"].items())
    ratios = [each["ratio"] for each in record["rounds"]]
    rows = [
        (
            f"throughput over that of `detector.score`, {record['clients']} clients",
            f"{record['ratio']:.2f}; in rounds {min(ratios):.2f} to {max(ratios):.2f}",
        ),
        ("half of that load: p50, p99", _milliseconds(half)),
        ("four times that load for a minute: answers", statuses),
        ("latency of those that were accepted: p50, p99", _milliseconds(overload)),
        (
            "memory before, and at most",
            f"{overload['mebibytes_before']:,} MiB, {overload['most_mebibytes']:,} MiB",
        ),
    ]
    table = ["| under load | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    views = "1 view" if detector["views"] == 1 else f"{detector['views']} views"
    source = (
        f"{detector['encoder']}, {detector['image_size']} pixels, {views}; the clients share the "
        f"cores with the service. {_source(SERVICE, record)}"
    )
    return "\n".join([*table, "", source]) + "\n"


def _milliseconds(answers: dict[str, Any]) -> str:
    taken = answers["milliseconds"]
    return f"{taken['p50']:,.0f} ms, {taken['p99']:,.0f} ms"


def faults_table() -> str:
    """Return how often each fault was tried, and how often what was promised did not hold."""
    records = {record["part"]: record for record in _by_date("torture", "reliability")}
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
    table = ["| fault | of or with | times | failed |", "|---|---|---|---|"]
    for kind, members in (groups | {"all": trials}).items():
        names = ", ".join(name.removeprefix(f"{kind}: ") for name, _ in members)
        tried, failed = (sum(row[column] for _, row in members) for column in ("tried", "failed"))
        table.append(f"| {kind} | {'' if kind == 'all' else names} | {tried:,} | {failed:,} |")
    sources = " ".join(
        f"{record['part'] or 'All'}: {record['share']:.0%} of the long form. "
        f"{_source(RELIABILITY, record)}"
        for record in records.values()
    )
    return "\n".join([*table, "", sources]) + "\n"


def soak_table() -> str:
    """Return what grew and what slowed down while processes worked side by side."""
    records = {tuple(record["processes"]): record for record in _by_date("soak", "reliability")}
    return "\n".join(map(_soak_of, records.values()))


def _soak_of(record: dict[str, Any]) -> str:
    table = [
        "| process | images | memory | growth an hour (95 %) | files | threads | images/s of CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in record["processes"].items():
        memory = found["resident_mebibytes"]
        growth = memory["slope"]
        cells = [
            f"{found['images']:,}",
            f"{memory['last_tenth']:,.0f} MiB, at most {memory['most']:,.0f}",
            f"{growth['per_hour']:+.1f} MiB ({growth['low']:+.1f} to {growth['high']:+.1f})",
            *(
                f"{found[what]['first_tenth']:g} to {found[what]['last_tenth']:g}"
                for what in ("descriptors", "threads", "images_per_cpu_second")
            ),
        ]
        table.append(f"| {name} | {' | '.join(cells)} |")
    faults = "; ".join(record["faults"]) or "none"
    length = f"{record['minutes']:g} minutes, the first {record['warm_up']:.0%} of them warm-up."
    source = f"{length} Faults: {faults}. {_source(RELIABILITY, record)}"
    return "\n".join([*table, "", source]) + "\n"


def _source(page: Path, record: dict[str, Any]) -> str:
    """Return on what a record was made, and a link to it."""
    machine = record["machine"]
    return (
        f"On an {machine['processor']} with {machine['system']}, seed {record['seed']}; record: "
        f"{link_from(page, record)}."
    )


def loss_of_many_table() -> str:
    """Return what the loss takes in one of many processes, and what a model says of it."""
    record = newest("scale")
    table = [
        "| processes | rows | loss and gradient | by the model | memory | by the model |",
        "|---|---|---|---|---|---|",
    ]
    table += [
        f"| {row['processes']} | {row['rows']:,} | {row['seconds']:.2f} s | | "
        f"{row['mebibytes']:.0f} MiB | |"
        for row in record["small"]
    ]
    row, predicted = record["large"], record["large"]["predicted"]
    table.append(
        f"| {row['processes']} | {row['rows']:,} | {row['seconds']:.1f} s | "
        f"{predicted['seconds']:.1f} s | {row['mebibytes']:.0f} MiB | "
        f"{predicted['mebibytes']:.0f} MiB |"
    )
    model, wanted = record["model"], 64 * record["rows_each"]
    if row["rows"] < wanted:
        seconds = model["nanoseconds_per_pair"] * wanted**2 / 1e9
        mebibytes = model["mebibytes_at_least"] + model["bytes_per_row"] * wanted / 2**20
        table.append(
            f"| 64 | {wanted:,} | not measured | {seconds:.1f} s | | {mebibytes:.0f} MiB |"
        )
    gathers = ", ".join(
        f"{row['milliseconds']:.1f} ms between {row['processes']} processes"
        for row in record["gather"]
    )
    source = (
        f"The model: {model['nanoseconds_per_pair']:.1f} ns of one core for every pair of rows, "
        f"and {model['bytes_per_row']:,.0f} bytes a row above "
        f"{model['mebibytes_at_least']:.0f} MiB. An all-gather of {record['rows_each']:,} rows of "
        f"{record['dim']} numbers each took {gathers} (median, gloo, one busy machine). Record: "
        f"{link_from(SCALE, record)}, on an {record['machine']['processor']}."
    )
    return "\n".join([*table, "", source]) + "\n"


def two_processes_table() -> str:
    """Return how fast two processes are beside one with two threads."""
    record = newest("processes")
    table = [
        (
            "| `batch.parts` | two processes, a thread each | one process, two threads | ratio "
            "(quartiles) |"
        ),
        "|---|---|---|---|",
    ]
    table += [
        f"| {row['parts']} | {row['rows_per_second_of_two_processes']:,} rows/s | "
        f"{row['rows_per_second_of_two_threads']:,} rows/s | {row['ratio']} "
        f"({row['quartiles'][0]} to {row['quartiles'][1]}) |"
        for row in record["speed"]
    ]
    (encoder,) = {row["encoder"] for row in record["speed"]}
    source = (
        f"The preset `mcl` ({encoder}), {record['speed'][0]['rounds']} interleaved rounds; record: "
        f"{link_from(SCALE, record)}, on an {record['machine']['processor']}."
    )
    return "\n".join([*table, "", source]) + "\n"


def chunks_table() -> str:
    """Return the memory of batches in chunks beside that of a whole batch."""
    record = newest("chunks")
    table = [
        (
            "| encoder | pixels | steps | a whole batch | in chunks of "
            f"{record['chunk']} | features and embeddings of all rows | over |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["memory"]:
        for steps, key in (("the first", "first_step_mebibytes"), ("two", "mebibytes")):
            whole, chunked = row[f"whole_{key}"], row[f"chunked_{key}"]
            over = chunked - whole - row["embeddings_mebibytes"]
            table.append(
                f"| {row['encoder']} | {row['image_size']} | {steps} | {row['whole_rows']:,} rows: "
                f"{whole:,.0f} MiB | {row['rows']:,} rows: {chunked:,.0f} MiB | "
                f"{row['embeddings_mebibytes']:.0f} MiB | {over:+,.0f} MiB |"
            )
    return "\n".join([*table, "", f"Record: {link_from(SCALE, record)}."]) + "\n"


def _records_by_machine(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield each machine with the records that were made on it."""
    links: dict[str, list[str]] = {}
    for record in records:
        machine = record["machine"]
        threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
        name = f"{threads} of an {machine['processor']}"
        links.setdefault(name, []).append(link_from(PERFORMANCE, record))
    for name, of_machine in links.items():
        yield f"{', '.join(of_machine)} on {name}"


def link_from(page: Path, record: dict[str, Any]) -> str:
    """Return a link from a page to the file of a record."""
    up = "../" * (len(page.relative_to(ROOT).parts) - 1)
    return f"[{record['name']}]({up}{record['file']})"


def _by_date(name: str, kind: str) -> list[dict[str, Any]]:
    """Return the records of a benchmark, the newest last."""
    return sorted(all_records(name, kind), key=lambda record: record["date"])


def newest(name: str, kind: str = "speed") -> dict[str, Any]:
    """Return the newest record of a benchmark, with the path of its file."""
    return _by_date(name, kind)[-1]


def all_records(name: str, kind: str) -> list[dict[str, Any]]:
    """Return the records of a benchmark, each with the path of its file."""
    return [
        json.loads(path.read_text()) | {"file": path.relative_to(ROOT).as_posix()}
        for path in RESULTS.glob(f"*-{kind}-{name}.json")
    ]


if __name__ == "__main__":
    main()
