"""Tables of docs/scale.md on training with several processes and in chunks."""

from pages import SCALE, link_from, newest


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
