"""`oddone score` as a user runs it."""

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from oddone.cli.copy_folder import CopyFolder
from oddone.cli.path_list import read_paths
from oddone.cli.score_table import most_anomalous_first
from oddone.cli.terminal import printable
from oddone.detector import Detector
from oddone.errors import DataError, SettingsError
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]

COLUMNS = ["path", "class_name", "score", "p_value", "anomalous", "reason"]
STEERING = "z [bold]\x1b[31m\n.png"  # markup, an escape sequence and a line break


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with four images of the classes, one of noise, and two broken files."""
    root = tmp_path / "folder"
    root.mkdir()
    source = tiny_source(images=192)
    for i in range(4):
        Image.fromarray(source.images[i].transpose(1, 2, 0)).save(root / f"{i}.png")
    (root / "cut.png").write_bytes((root / "0.png").read_bytes()[:60])
    (root / "text.png").write_text("no picture")
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / STEERING)
    return root


@pytest.fixture
def detector(detector_file: Path) -> Detector:
    return Detector.load(detector_file)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of any format, their values as CSV has them."""
    if path.suffix == ".csv":
        return rows_of(path.read_text())
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pq.read_table(path).to_pylist()
    return [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ]


def test_a_pipe_gets_csv_that_agrees_with_the_detector(
    run_oddone: Run, detector_file: Path, detector: Detector, folder: Path
) -> None:
    code, printed, complained = run_oddone("score", str(detector_file), str(folder))
    rows, expected = rows_of(printed), list(detector.score(folder))
    assert code == 0
    assert list(rows[0]) == COLUMNS
    names = ["0.png", "1.png", "2.png", "3.png", "cut.png", "text.png", STEERING]
    assert [row["path"] for row in rows] == [str(folder / name) for name in names]
    for row, scored in zip(rows, expected, strict=True):
        assert row["class_name"] == (scored.class_name or "")
        assert row["reason"] == (scored.reason or "")
        verdict = scored.verdict
        assert row["anomalous"] == ("" if verdict is None else str(verdict.anomalous))
        if verdict is not None:
            pixels = np.asarray(Image.open(row["path"])).transpose(2, 0, 1)
            assert float(row["score"]) == pytest.approx(verdict.score, abs=1e-5)
            assert float(row["score"]) == pytest.approx(
                detector(pixels[None]).scores.item(), abs=1e-5
            )
    assert [row["anomalous"] for row in rows[4:]] == ["", "", "True"]
    assert [row["reason"] for row in rows[4:6]] == ["truncated", "not an image of a known format"]
    assert float(rows[-1]["p_value"]) == pytest.approx(1 / 97)
    assert "7 images in" in complained
    anomalous = sum(row["anomalous"] == "True" for row in rows)
    verdicts = f"{anomalous} anomalous (score above {detector.threshold:.4g}), 2 unreadable"
    assert verdicts in complained


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_every_format_holds_the_same_rows(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path, ending: str
) -> None:
    _, printed, _ = run_oddone("score", str(detector_file), str(folder))
    out = tmp_path / f"scores{ending}"
    out.write_text("what was there before")
    code, nothing, complained = run_oddone(
        "score", str(detector_file), str(folder), "--out", str(out)
    )
    assert (code, nothing) == (0, "")
    assert f"2 unreadable; the rows are in {out}" in complained
    assert read(out) == rows_of(printed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", out.name]


def test_parquet_has_types_and_row_groups(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oddone.cli.score_table.ROWS_PER_GROUP", 3)
    out = tmp_path / "scores.parquet"
    run_oddone("score", str(detector_file), str(folder), "--out", str(out))
    types = ["string", "string", "double", "double", "bool", "string"]
    assert [str(column.type) for column in pq.read_schema(out)] == types
    assert pq.read_metadata(out).num_row_groups == 3


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_explaining_adds_three_neighbours(
    run_oddone: Run,
    detector_file: Path,
    detector: Detector,
    folder: Path,
    tmp_path: Path,
    ending: str,
) -> None:
    out = tmp_path / f"scores{ending}"
    run_oddone("score", str(detector_file), str(folder), "--explain", "--out", str(out))
    near = next(detector.score(folder, neighbours=3)).neighbours
    first, broken = read(out)[0], read(out)[4]
    if ending == ".jsonl":
        first, broken = (json.loads(out.read_text().splitlines()[i]) for i in (0, 4))
        assert [each["path"] for each in first["neighbours"]] == [each.path for each in near]
        assert first["neighbours"][0]["class_name"] == "class 0"
        assert broken["neighbours"] == []
    else:
        assert len(first) == len(COLUMNS) + 9
        assert [first[f"neighbour_{i}_path"] for i in (1, 2, 3)] == [each.path for each in near]
        assert first["neighbour_1_class_name"] == "class 0"
        assert float(first["neighbour_3_similarity"]) == pytest.approx(near[2].similarity, abs=1e-5)
        assert broken["neighbour_1_path"] == ""


def test_the_summary_counts_what_was_enlarged_and_left_out(
    run_oddone: Run, detector_file: Path, folder: Path
) -> None:
    assert "enlarged" not in run_oddone("score", str(detector_file), str(folder))[2]
    Image.new("RGB", (8, 30)).save(folder / "narrow.png")
    (folder / "film.mov").touch()
    _, _, complained = run_oddone("score", str(detector_file), str(folder))
    assert complained.endswith(" 2 unreadable, 1 enlarged\nleft out: 1 .mov\n")


def test_pictures_folders_and_data_sets_can_be_mixed(
    run_oddone: Run, detector_file: Path, folder: Path
) -> None:
    sources = [str(folder / "3.png"), str(folder), "fashion:unseen#test"]
    _, printed, _ = run_oddone("score", str(detector_file), *sources)
    paths = [row["path"] for row in rows_of(printed)]
    assert paths[:2] == [str(folder / "3.png"), str(folder / "0.png")]
    assert paths[-1] == "fashion:unseen#test[399]"


def test_a_detector_without_a_threshold_says_so_once(
    run_oddone: Run, uncalibrated_file: Path, folder: Path
) -> None:
    code, printed, complained = run_oddone("score", str(uncalibrated_file), str(folder))
    assert code == 0
    assert {row["anomalous"] for row in rows_of(printed)} == {""}
    assert complained.count("nothing is called anomalous") == 1
    assert f"oddone calibrate {uncalibrated_file} SOURCE" in complained
    assert "images/s): 2 unreadable" in complained


@pytest.mark.parametrize("to_file", [False, True])
def test_nothing_but_unreadable_files_is_exit_code_2(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path, to_file: bool
) -> None:
    out = tmp_path / "scores.csv"
    broken = [str(folder / "cut.png"), str(folder / "text.png")]
    words = [*broken, "--out", str(out)] if to_file else broken
    code, printed, complained = run_oddone("score", str(detector_file), *words)
    assert code == 2
    rows = rows_of(out.read_text() if to_file else printed)
    assert [row["path"] for row in rows] == broken
    assert "2 images in" in complained
    assert "none of the 2 files can be read" in complained.splitlines()[-1]
    assert f"({broken[0]}: truncated)" in complained.splitlines()[-1]
    assert run_oddone("score", str(detector_file), *broken, str(folder / "0.png"))[0] == 0


# --- The most anomalous first -----------------------------------------------------------------


@pytest.mark.parametrize("words", [("--sort", "score"), ("--top", "100")])
def test_sorting_puts_the_most_anomalous_first_and_the_unreadable_last(
    run_oddone: Run, detector_file: Path, folder: Path, words: tuple[str, str]
) -> None:
    _, printed, complained = run_oddone("score", str(detector_file), str(folder))
    _, arranged, same = run_oddone("score", str(detector_file), str(folder), *words)
    rows = rows_of(printed)
    expected = sorted(rows[:4] + rows[6:], key=lambda row: -float(row["score"])) + rows[4:6]
    assert [row["path"] for row in rows_of(arranged)] == [row["path"] for row in expected]
    assert rows_of(arranged)[0]["path"] == str(folder / STEERING)
    assert same.partition(": ")[2] == complained.partition(": ")[2]


def test_only_the_top_rows_are_shown_but_all_are_counted(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores.csv"
    code, _, complained = run_oddone(
        "score", str(detector_file), str(folder), "--top", "1", "--out", str(out)
    )
    assert code == 0
    assert [row["path"] for row in read(out)] == [str(folder / STEERING)]
    assert "7 images in" in complained
    assert "2 unreadable" in complained


def test_no_more_rows_than_the_top_are_kept() -> None:
    class Counted(dict[str, Any]):
        alive = most = 0

        def __init__(self, score: float) -> None:
            super().__init__(score=score)
            Counted.alive += 1
            Counted.most = max(Counted.most, Counted.alive)

        def __del__(self) -> None:
            Counted.alive -= 1

    scores = np.random.default_rng(0).permutation(2000).astype(float).tolist()
    top = most_anomalous_first((Counted(score) for score in scores), 5)
    assert [row["score"] for row in top] == [1999, 1998, 1997, 1996, 1995]
    assert Counted.most < 10


# --- Copies -----------------------------------------------------------------------------------


def test_anomalous_files_are_copied_and_no_others(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "new" / "odd"
    words = ["score", str(detector_file), str(folder), "--copy-anomalous", str(odd)]
    code, printed, complained = run_oddone(*words)
    assert code == 0
    anomalous = [Path(row["path"]) for row in rows_of(printed) if row["anomalous"] == "True"]
    assert {path.name for path in odd.iterdir()} == {path.name for path in anomalous}
    assert all((odd / path.name).read_bytes() == path.read_bytes() for path in anomalous)
    assert f"{len(anomalous)} copied to {odd}" in complained


def test_no_copy_overwrites_anything(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    noise = (folder / STEERING).read_bytes()
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(noise)
    odd, elsewhere = tmp_path / "odd", tmp_path / "elsewhere.png"
    odd.mkdir()
    (odd / "x.png").write_text("mine")
    (odd / "x-2.png").symlink_to(elsewhere)  # to nowhere
    sources = [str(tmp_path / name) for name in ("a", "b", "c")]
    _, _, complained = run_oddone(
        "score", str(detector_file), *sources, "--copy-anomalous", str(odd)
    )
    assert "3 copied" in complained
    assert (odd / "x.png").read_text() == "mine"
    assert not elsewhere.exists()
    assert all((odd / f"x-{number}.png").read_bytes() == noise for number in (3, 4, 5))
    assert len(list(odd.iterdir())) == 5


def test_what_an_earlier_command_has_copied_is_not_copied_twice(
    folder: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes((folder / "0.png").read_bytes())
    for _ in range(2):  # the first may have been killed
        copies = CopyFolder(tmp_path / "odd")
        for name in ("a", "b"):
            copies.add(str(tmp_path / name / "x.png"))
        assert copies.copied == 2
        assert sorted(path.name for path in copies.path.iterdir()) == ["x-2.png", "x.png"]


def test_images_without_a_file_are_not_copied_and_counted(
    run_oddone: Run, detector_file: Path, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "noise.npy", noise)
    odd = tmp_path / "odd"
    code, _, complained = run_oddone(
        "score", str(detector_file), str(tmp_path / "noise.npy"), "--copy-anomalous", str(odd)
    )
    assert code == 0
    assert f"0 copied to {odd}, 3 not, as they have no file that can be copied" in complained
    assert list(odd.iterdir()) == []


def test_copies_need_a_threshold_and_a_folder(
    run_oddone: Run, detector_file: Path, uncalibrated_file: Path, folder: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd"
    words = [str(folder), "--copy-anomalous", str(odd)]
    code, printed, complained = run_oddone("score", str(uncalibrated_file), *words)
    assert (code, printed) == (2, "")
    assert "--copy-anomalous needs a threshold" in complained
    assert f"oddone calibrate {uncalibrated_file} SOURCE" in complained
    assert not odd.exists()
    odd.write_text("a file")
    code, printed, complained = run_oddone("score", str(detector_file), *words)
    assert (code, printed) == (2, "")
    assert f"--copy-anomalous {odd}: that is a file; name a folder" in complained


def test_copies_are_not_put_where_the_next_command_would_score_them(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    for odd in (folder / "odd", folder, tmp_path / "link" / "deep" / "odd"):
        words = (str(detector_file), str(folder), "--copy-anomalous", str(odd))
        code, printed, complained = run_oddone("score", *words)
        assert (code, printed) == (2, "")
        assert complained == (
            f"oddone: --copy-anomalous {odd} lies in {folder}, so the next command would score the "
            f"copies too; name a folder outside\n"
        )
    assert not (folder / "odd").exists()
    beside = (tmp_path / f"{folder.name}-odd", folder / ".odd")  # what is hidden is not scored
    for odd in beside:
        words = (str(detector_file), str(folder), "--copy-anomalous", str(odd))
        assert run_oddone("score", *words)[0] == 0


def test_a_full_disk_leaves_no_part_of_a_copy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_original: BinaryIO, copy: BinaryIO) -> None:
        copy.write(b"part")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    copies = CopyFolder(tmp_path / "odd")
    with pytest.raises(SettingsError, match="No space left on device; make room there"):
        copies.add(str(folder / "0.png"))
    assert list((tmp_path / "odd").iterdir()) == []


def test_a_copy_has_no_name_before_it_is_complete(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[list[str]] = []

    def watched(original: BinaryIO, copy: BinaryIO) -> None:
        copy.write(original.read())
        named.append([path.name for path in odd.iterdir() if path.suffix == ".png"])

    odd = tmp_path / "odd"
    monkeypatch.setattr("shutil.copyfileobj", watched)
    copies = CopyFolder(odd)
    copies.add(str(folder / "0.png"))
    assert named == [[]]
    assert [path.name for path in odd.iterdir()] == ["0.png"]
    assert (odd / "0.png").read_bytes() == (folder / "0.png").read_bytes()


def test_nothing_is_overwritten_where_there_are_no_hard_links(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_original: Path, _name: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    odd = tmp_path / "odd"
    copies = CopyFolder(odd)
    (odd / "0.png").symlink_to("nowhere")
    copies.add(str(folder / "0.png"))
    assert sorted(path.name for path in odd.iterdir()) == ["0-2.png", "0.png"]
    assert (odd / "0.png").is_symlink()


# --- Paths from stdin -------------------------------------------------------------------------


@pytest.fixture
def piped(run_oddone: Run, detector_file: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `oddone score - ...` with these bytes on stdin."""

    def run(content: bytes, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return run_oddone("score", str(detector_file), "-", *words)

    return run


@pytest.mark.parametrize("end", [b"\0", b"\n", b"\r\n"])
def test_paths_come_from_stdin(piped: Run, folder: Path, end: bytes) -> None:
    names = ["3.png", "gone.png", "text.png", "0.png", *([STEERING] if end == b"\0" else [])]
    paths = [str(folder / name) for name in names]
    code, printed, complained = piped(end.join(map(os.fsencode, ["", *paths, ""])))
    assert code == 0
    rows = rows_of(printed)
    assert [row["path"] for row in rows] == paths
    reasons = ["", "no such file or directory", "not an image of a known format", ""]
    assert [row["reason"] for row in rows][:4] == reasons
    assert f"{len(names)} images in" in complained


def test_a_path_from_stdin_may_be_a_folder_and_need_no_line_end(piped: Run, folder: Path) -> None:
    (folder / "notes.txt").touch()
    _, printed, complained = piped(os.fsencode(folder))
    assert len(rows_of(printed)) == 7
    assert complained.endswith("left out: 1 .txt\n")


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
def test_a_path_from_stdin_need_not_be_unicode(piped: Run, folder: Path) -> None:
    odd = os.fsencode(folder) + b"/\xff.png"
    (folder / "0.png").rename(os.fsdecode(odd))
    assert piped(odd)[0] == 0


def test_no_path_on_stdin_is_a_mistake(piped: Run, folder: Path) -> None:
    code, _, complained = piped(b"\n\n")
    assert code == 2
    assert "there is nothing to score" in complained
    code, printed, complained = piped(b"", str(folder))
    assert (code, printed) == (2, "")
    assert "leave the other sources out" in complained


def test_a_closed_stdin_names_nothing(
    run_oddone: Run, detector_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, _, complained = run_oddone("score", str(detector_file), "-")
    sys.stdin.close()
    assert code == 2
    assert "there is nothing to score" in complained


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_rows_for_a_closed_stream_lead_nowhere(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    stream: str,
) -> None:
    monkeypatch.setattr(sys, stream, None)
    code, printed, complained = run_oddone("score", str(detector_file), str(folder))
    getattr(sys, stream).close()
    assert code == 0
    assert (printed == "", complained == "") == (stream == "stdout", stream == "stderr")


def test_paths_are_given_as_soon_as_they_are_whole() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as end:
        paths = read_paths(pipe)
        end.write(b"a\nb\nhal")
        assert [next(paths), next(paths)] == ["a", "b"]
        end.write(b"f\n")
        assert next(paths) == "half"


def test_a_pipe_without_an_end_of_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.cli.path_list.LONGEST", 10)
    with pytest.raises(DataError, match="20 bytes without an end of line"):
        list(read_paths(io.BytesIO(b"x" * 20)))


# --- The terminal -----------------------------------------------------------------------------


@pytest.fixture
def terminal(run_oddone: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command line as if its output were a terminal."""
    monkeypatch.setenv("TERM", "dumb")  # no colours

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        return run_oddone(*words)

    return run


def test_a_terminal_gets_a_table(
    terminal: Run, detector_file: Path, detector: Detector, folder: Path
) -> None:
    _, printed, _ = terminal("score", str(detector_file), str(folder))
    lines = printed.splitlines()
    assert lines[0].split() == ["verdict", "class", "name", "score", "p-value", "image"]
    first = next(detector.score(folder))
    assert first.verdict is not None
    verdict = "anomalous" if first.verdict.anomalous else "normal"
    assert lines[1].startswith(
        f"{verdict:<10}  {first.class_name:<10}  {first.verdict.score:>8.4g}"
    )
    assert lines[5].split() == ["unreadable", str(folder / "cut.png"), "truncated"]
    assert lines[7].startswith("anomalous")
    assert "1 in 97" in lines[7]


def test_a_name_cannot_steer_the_terminal(terminal: Run, detector_file: Path, folder: Path) -> None:
    _, printed, _ = terminal("score", str(detector_file), str(folder / STEERING))
    assert "z [bold]\\x1b[31m\\n.png" in printed
    assert "\x1b" not in printed


def test_a_terminal_shows_neighbours_below_their_image(
    terminal: Run, detector_file: Path, folder: Path
) -> None:
    _, printed, _ = terminal("score", str(detector_file), str(folder / "0.png"), "--explain")
    similar = printed.splitlines()[2:]
    assert len(similar) == 3
    assert all(line.startswith("distance ") for line in map(str.strip, similar))
    assert all(", class 0: tiny[" in line for line in similar)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red] \N{SNOWMAN}", "plain [red] \N{SNOWMAN}"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("gpj.\N{RIGHT-TO-LEFT OVERRIDE}exe", "gpj.\\u202eexe"),
        ("\udcff.png", "\\udcff.png"),
    ],
)
def test_what_steers_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


# --- Names and pipes --------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_name_need_not_be_unicode(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path, ending: str
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (folder / "0.png").rename(os.fsdecode(os.fsencode(bare) + b"/\xff.png"))
    out = tmp_path / f"scores{ending}"
    assert run_oddone("score", str(detector_file), str(bare), "--out", str(out))[0] == 0
    expected = {
        ".csv": b"bare/\\udcff.png,class 0,",
        ".jsonl": b'bare/\\udcff.png", "class_name"',
        ".parquet": b"bare/\\udcff.png",
    }
    assert expected[ending] in out.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
def test_csv_is_valid_utf8_with_any_name(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture = (folder / "0.png").read_bytes()
    names = [b"\xff.png", b"caf\xc3\xa9 \xe2\x98\x83.png", b'a,"b\n\r.png', b"\xed\xb3\xbf.png"]
    names += [b"line\r.png"]  # as macOS names the icons of folders
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in names:
        Path(os.fsdecode(os.fsencode(bare) + b"/" + name)).write_bytes(picture)
    out, piped = tmp_path / "scores.csv", tmp_path / "piped.csv"
    assert run_oddone("score", str(detector_file), str(bare), "--out", str(out))[0] == 0
    with piped.open("w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run_oddone("score", str(detector_file), str(bare))[0] == 0
    shown = {"\\udcff.png", "caf\xe9 \N{SNOWMAN}.png", 'a,"b\n\r.png', "\\udced\\udcb3\\udcbf.png"}
    shown |= {"line\r.png"}
    for path in (out, piped):
        rows = rows_of(path.read_bytes().decode("utf-8"))
        assert {row["path"].removeprefix(f"{bare}/") for row in rows} == shown


@pytest.mark.parametrize("buffering", ["of each line", "to the end"])
def test_a_reader_may_leave_early(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    buffering: str,
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1 if buffering == "of each line" else -1) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        code, _, complained = run_oddone("score", str(detector_file), str(folder))
    assert (code, complained) == (0, "")


# --- Mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what to score: oddone score DETECTOR SOURCE"),
        (["no/such"], "'no/such' does not exist"),
        (["{folder}", "--out", "scores.xlsx"], "let the name end in .csv, .jsonl or .parquet"),
        (["{folder}", "--out", "no/such.csv"], "no/such.csv: name a file in a folder that exists"),
        (["{folder}", "--top", "0"], "--top 0: choose 1 or more rows"),
        (["{folder}", "--sort", "name"], '"name"'),
        (["{folder}", "--tpo", "5"], "unknown option --tpo; did you mean '--top'?"),
        (["-x.png"], "unknown option -x.png; a file of that name is ./-x.png"),
        (["{empty}"], "no images below .*empty (found: nothing)"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run_oddone: Run, detector_file: Path, folder: Path, words: list[str], message: str
) -> None:
    empty = folder / "empty"
    empty.mkdir()
    filled = [word.format(folder=folder, empty=empty) for word in words]
    code, printed, complained = run_oddone("score", str(detector_file), *filled)
    assert (code, printed) == (2, "")
    assert message.replace(".*", str(folder) + "/") in complained
    assert complained.count("\n") == 1


def test_a_file_that_is_no_detector_is_an_error(run_oddone: Run, folder: Path) -> None:
    code, _, complained = run_oddone("score", str(folder / "0.png"), str(folder))
    assert code == 2
    assert "0.png" in complained


def test_parquet_without_its_package_says_what_to_install(
    run_oddone: Run, detector_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    out = folder / "scores.parquet"
    code, _, complained = run_oddone("score", str(detector_file), str(folder), "--out", str(out))
    assert code == 2
    assert "pip install 'oddone[parquet]'" in complained


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_what_is_not_complete_does_not_take_the_name(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / f"scores{ending}"
    code, _, complained = run_oddone("score", str(detector_file), str(folder), "--out", str(out))
    assert code == 2
    assert f"{out} cannot be written: No space left on device" in complained
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def refuse_cifar(*_: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_source_that_cannot_be_read_is_not_taken_for_the_file_of_rows(
    run_oddone: Run, detector_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    monkeypatch.setattr("oddone.data.cifar._read_files", refuse_cifar)
    source, out = f"cifar10:{tmp_path}", tmp_path / "rows.csv"
    code, _, complained = run_oddone("score", str(detector_file), source, "--out", str(out))
    assert code == 2
    assert f"cannot read {source}: Permission denied; name files" in complained
    assert "cannot be written" not in complained
    assert not out.exists()


def test_stdin_that_cannot_be_read_is_named() -> None:
    class Broken(io.BytesIO):
        def read1(self, _: int | None = -1, /) -> bytes:
            raise OSError(errno.EISDIR, "Is a directory")

    with pytest.raises(DataError, match="stdin cannot be read: Is a directory"):
        list(read_paths(Broken()))
