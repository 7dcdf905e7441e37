"""Tables of docs/scale.md on training with several processes and in chunks."""

from pages import SCALE, by_date, link_from, newest, table


def loss_of_many_table() -> str:
    """Return what the loss takes in one of many processes, and what a model says of it."""
    record = newest("scale")
    rows = [
        (
            f"{row['processes']}",
            f"{row['rows']:,}",
            f"{row['seconds']:.2f} s",
            "",
            f"{row['mebibytes']:.0f} MiB",
            "",
        )
        for row in record["small"]
    ]
    row, predicted = record["large"], record["large"]["predicted"]
    rows.append(
        (
            f"{row['processes']}",
            f"{row['rows']:,}",
            f"{row['seconds']:.1f} s",
            f"{predicted['seconds']:.1f} s",
            f"{row['mebibytes']:.0f} MiB",
            f"{predicted['mebibytes']:.0f} MiB",
        )
    )
    model, wanted = record["model"], 64 * record["rows_each"]
    if row["rows"] < wanted:
        seconds = model["nanoseconds_per_pair"] * wanted**2 / 1e9
        mebibytes = model["mebibytes_at_least"] + model["bytes_per_row"] * wanted / 2**20
        rows.append(
            ("64", f"{wanted:,}", "not measured", f"{seconds:.1f} s", "", f"{mebibytes:.0f} MiB")
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
    columns = ["processes", "rows", "loss and gradient", "by the model", "memory", "by the model"]
    return table(columns, rows, source)


def two_processes_table() -> str:
    """Return how fast two processes are beside one with two threads."""
    record = newest("processes")
    columns = [
        "`batch.parts`",
        "two processes, a thread each",
        "one process, two threads",
        "ratio (quartiles)",
    ]
    rows = [
        (
            f"{row['parts']}",
            f"{row['rows_per_second_of_two_processes']:,} rows/s",
            f"{row['rows_per_second_of_two_threads']:,} rows/s",
            f"{row['ratio']} ({row['quartiles'][0]} to {row['quartiles'][1]})",
        )
        for row in record["speed"]
    ]
    (encoder,) = {row["encoder"] for row in record["speed"]}
    source = (
        f"The preset `mcl` ({encoder}), {record['speed'][0]['rounds']} interleaved rounds; record: "
        f"{link_from(SCALE, record)}, on an {record['machine']['processor']}."
    )
    return table(columns, rows, source)


def chunks_table() -> str:
    """Return the memory of batches in chunks beside that of a whole batch, by size of images."""
    newest_of = {
        row["image_size"]: (row, record)
        for record in by_date("chunks", "speed")
        for row in record["memory"]
    }
    columns = [
        "encoder",
        "pixels",
        "steps",
        "a whole batch",
        "in chunks of as many rows",
        "features and embeddings of all rows",
        "over",
    ]
    rows = []
    for _, (row, _) in sorted(newest_of.items()):
        for steps, key in (("the first", "first_step_mebibytes"), ("two", "mebibytes")):
            whole, chunked = row[f"whole_{key}"], row[f"chunked_{key}"]
            over = chunked - whole - row["embeddings_mebibytes"]
            rows.append(
                (
                    f"{row['encoder']}",
                    f"{row['image_size']}",
                    steps,
                    f"{row['whole_rows']:,} rows: {whole:,.0f} MiB",
                    f"{row['rows']:,} rows: {chunked:,.0f} MiB",
                    f"{row['embeddings_mebibytes']:.0f} MiB",
                    f"{over:+,.0f} MiB",
                )
            )
    records = {record["file"]: record for _, record in newest_of.values()}
    links = ", ".join(link_from(SCALE, record) for record in records.values())
    return table(columns, rows, f"Records: {links}.")
