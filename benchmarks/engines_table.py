"""The tables of docs/scale.md: what engines reach, and what so many images cost."""

from collections.abc import Callable

from pages import Record, table

IMAGES = (10**6, 10**8, 10**10)
Link = Callable[[Record], str]


def engines_table(record: Record, link: Link) -> str:
    """Return what was measured of both engines, round by round."""
    columns = [
        "round",
        "engine",
        "images/s",
        "images/s of CPU",
        "memory of a process",
        "bytes an image",
    ]
    rows = [
        (
            f"{number}",
            name,
            f"{found['images_per_second']:,.0f}",
            f"{found['images_per_cpu_second']:,.0f}",
            f"{found['worker_mebibytes']:,.0f} MiB",
            f"{found['bytes_written_per_image']:.0f}",
        )
        for number, engines in enumerate(record["rounds"], 1)
        for name, found in engines.items()
    ]
    machine, memory = record["machine"], record["memory"]
    by_clock, by_cpu = record["ray_over_local"], record["ray_over_local_per_cpu_second"]
    about = (
        f"{record['images']:,} pictures of {record['size']} pixels, {record['encoder']}, one view; "
        f"{record['workers']} workers of Ray, on {machine['threads']} threads of an "
        f"{machine['processor']}, where others worked too (load {record['load_average'][0]:g})."
    )
    ratios = (
        f"Ray over local, median of the rounds: {by_clock['median']:.2f} by the clock "
        f"({_listed(by_clock['all'])}), {by_cpu['median']:.2f} by CPU time "
        f"({_listed(by_cpu['all'])})."
    )
    rest = (
        f"Memory of a worker: {memory['many']['worker_mebibytes']:,.0f} MiB, "
        f"{record['memory_ratio']:.2f} times that with a tenth of the pictures. Ray started in "
        f"{record['seconds_to_start_ray']:.0f} s. Record: {link(record)}."
    )
    return table(columns, rows, f"{about}\n{ratios}\n{rest}")


def costs_table(engines: Record, scoring: Record, decoding: Record, link: Link) -> str:
    """Return core hours by what one core does in a second, as it was measured."""
    rates = [r["ray"]["images_per_cpu_second"] for r in engines["rounds"]]
    rows = [
        (
            f"all of it: PNG of {engines['size']} pixels, {engines['encoder']}, one view",
            sorted(rates)[len(rates) // 2],
        )
    ]
    threads = scoring["machine"]["threads"]
    rows += [
        (
            f"network alone: {row['encoder']}, 32 pixels, eight views",
            row["images"] / (row["our_milliseconds"] / 1e3) / threads,
        )
        for row in scoring["speed"]
    ]
    width, height = decoding["photo_size"]
    rows += [
        (
            f"decoding alone: JPEG of {width} x {height} to {row['size']} pixels",
            decoding["photos"] / (row["our_milliseconds"] / 1e3) / decoding["machine"]["threads"],
        )
        for row in decoding["speed"]
        if row["ours"] == "first load"
    ]
    columns = ["what a core does", "images/s", "10^6 images", "10^8 images", "10^10 images"]
    cells = [
        [
            what,
            _rounded(rate),
            *(f"{_rounded(images / rate / 3600)} core hours" for images in IMAGES),
        ]
        for what, rate in rows
    ]
    records = ", ".join(link(record) for record in (engines, scoring, decoding))
    return table(columns, cells, f"Records: {records}.")


def first_verdict_table(record: Record, link: Link) -> str:
    """Return how long the first verdict on a large folder takes."""
    median, machine = record["median"], record["machine"]
    return (
        f"The first verdict on a folder of {record['files']:,} files comes after "
        f"{median['seconds']:.1f} s ({median['cpu_seconds']:.1f} s of CPU time, of which the list "
        f"of files takes {median['cpu_seconds_of_listing']:.1f} s and "
        f"{median['mebibytes_of_listing']:.0f} MiB), the median of {len(record['rounds'])} on "
        f"{machine['threads']} threads of an {machine['processor']} where others worked too "
        f"(load {record['load_average'][0]:g}); record: {link(record)}.\n"
    )


def _listed(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


def _rounded(number: float) -> str:
    """Return a number with two digits that matter."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
