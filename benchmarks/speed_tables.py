"""Tables on how fast things are, and what speed costs."""

from collections.abc import Iterator, Sequence
from statistics import median

from pages import PERFORMANCE, SERVICE, Record, by_date, link_from, made_on, newest, table


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
    cells = [(what, row["peer"], _times_as_fast(row)) for what, row in rows]
    memory = (
        f"Peak memory of `mcl_loss` at {loss['memory_rows']:,} rows: {ours:,.0f} MiB, of which "
        f"{alone:,.0f} are torch and the batch; pytorch-metric-learning: {peer:,.0f} MiB."
    )
    records = (loss, density, augmentation, training, scoring, decoding)
    source = f"Records: {'; '.join(_records_by_machine(records))}."
    columns = ["what", "against", "times as fast (quartiles)"]
    return table(columns, cells, f"{memory}\n\n{source}")


def adaptive_table() -> str:
    """Return what views as needed change, on each data set that was measured."""
    records = {record["source"]: record for record in by_date("adaptive", "speed")}
    return "\n".join(map(_adaptive_of, records.values()))


def _adaptive_of(record: Record) -> str:
    columns = [
        record["source"],
        "images",
        "same verdict",
        f"views of {record['views']}",
        "anomalous (by all views)",
        "AUROC (by all views)",
    ]
    rows = []
    for row in record["results"]:
        area = ""
        if "auroc_as_needed" in row:
            area = f"{row['auroc_as_needed']:.1%} ({row['auroc_by_all']:.1%})"
        rows.append(
            (
                row["set"],
                f"{row['images']:,}",
                f"{row['same_verdict']:.2%}",
                f"{row['views']:.2f}",
                f"{row['anomalous_as_needed']:.1%} ({row['anomalous_by_all']:.1%})",
                area,
            )
        )
    (speed,) = record["speed"]
    low, high = speed["quartiles"]
    source = (
        f"On {record['timed_images']} test images {speed['times_as_fast']} times as fast ({low} to "
        f"{high}). Learned on {record['calibration_images']:,} images, with {record['encoder']} "
        f"after {record['steps']:,} steps; {next(_records_by_machine([record]))}."
    )
    return table(columns, rows, source)


def export_table() -> str:
    """Return how fast exported files are, where their time goes, and what they change."""
    record = newest("export")
    return f"{_exported_speed(record)}\n{_exported_quality(record)}"


def _exported_speed(record: Record) -> str:
    columns = [
        "network, eight views",
        "file",
        "MB",
        "times as fast (quartiles)",
        "where the time goes",
    ]
    rows = []
    for row in record["speed"]:
        largest = list(row["profile"].items())[:3]
        rows.append(
            (
                f"{row['encoder']}, {row['size']} pixels",
                row["precision"],
                f"{row['megabytes']}",
                _times_as_fast(row),
                ", ".join(f"{operation} {share:.0%}" for operation, share in largest),
            )
        )
    source = f"One thread of an {record['machine']['processor']}."
    return table(columns, rows, source)


def _exported_quality(record: Record) -> str:
    columns = [
        "images",
        "file",
        "other verdicts",
        "labels",
        "scores off: median (largest)",
        "AUROC (was)",
    ]
    rows = []
    for row in record["quality"]:
        for precision in ("float32", "int8"):
            change = row[precision]
            rows.append(
                (
                    f"{change['images']:,} {row['name']}",
                    precision,
                    f"{change['verdicts']}",
                    f"{change['labels']}",
                    f"{change['median_score']:.1e} ({change['largest_score']:.1e})",
                    f"{change['auroc']:.1%} ({change['auroc_before']:.1%})",
                )
            )
    unseen = [f"{row['unseen']} beside the {row['name']}" for row in record["quality"]]
    source = (
        f"AUROC is against images of unseen classes: {', '.join(unseen)}. Record: "
        f"{link_from(PERFORMANCE, record)}."
    )
    return table(columns, rows, source)


def load_table() -> str:
    """Return what the service does under load, beside `oddone score` on the same pictures."""
    record = newest("load")
    detector, half, overload = record["detector"], record["half_load"], record["overload"]
    ratios = [each["ratio"] for each in record["rounds"]]
    sent = overload["sent_per_second"]
    served = median(each["served_images_per_second"] for each in record["rounds"])
    rows = [
        (
            f"throughput over that of `oddone score`, {record['clients']} clients",
            f"{record['ratio']:.2f}; in rounds {min(ratios):.2f} to {max(ratios):.2f}",
        ),
        (
            f"half of that load ({half['sent_per_second']} pictures/s at random times): p50, p99",
            _milliseconds(half),
        ),
        (
            f"{sent / served:.1f} times that load ({sent} pictures/s) for a minute",
            _statuses(overload),
        ),
        ("latency of those that were accepted: p50, p99", _milliseconds(overload)),
        (
            "memory before, and at most",
            f"{overload['mebibytes_before']:,} MiB, {overload['most_mebibytes']:,} MiB",
        ),
        ("half of the load afterwards: p50, p99", _milliseconds(record["after_overload"])),
    ]
    views = "1 view" if detector["views"] == 1 else f"{detector['views']} views"
    cores = max(each["client_cores"] for each in (half, overload, *record["rounds"]))
    source = (
        f"{detector['encoder']}, {detector['image_size']} pixels, {views}. The clients are those "
        f"of locust {record['versions']['locust']}, on the cores of the service, of which they "
        f"took up to {cores}. {made_on(SERVICE, record)}"
    )
    return table(["under load", ""], rows, source)


def _statuses(answers: Record) -> str:
    return ", ".join(f"{count:,} x {name}" for name, count in answers["statuses"].items())


def _times_as_fast(row: Record) -> str:
    low, high = row["quartiles"]
    return f"{row['times_as_fast']} ({low} to {high})"


def _milliseconds(answers: Record) -> str:
    taken = answers["milliseconds"]
    return f"{taken['p50']:,.0f} ms, {taken['p99']:,.0f} ms"


def _records_by_machine(records: Sequence[Record]) -> Iterator[str]:
    """Yield each machine with the records that were made on it."""
    links: dict[str, list[str]] = {}
    for record in records:
        machine = record["machine"]
        threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
        name = f"{threads} of an {machine['processor']}"
        links.setdefault(name, []).append(link_from(PERFORMANCE, record))
    for name, of_machine in links.items():
        yield f"{', '.join(of_machine)} on {name}"
