"""`oddone score` in shards and in parts, and put together again."""

import json
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from torch.nn import Flatten

import oddone
from oddone.cli import score_parts
from oddone.cli.score_shares import ShareNote, _check_none_is_missing, parse_shard
from oddone.data.pieces import PackedPiece, share_of
from oddone.detector import Detector
from oddone.errors import DataError, SettingsError
from oddone.files import lock_folder
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]
IMAGES = 11


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with ten images and a broken file."""
    root = tmp_path / "photos"
    root.mkdir()
    for number, image in enumerate(tiny_source(images=IMAGES - 1).images):
        Image.fromarray(image.transpose(1, 2, 0)).save(root / f"{number}.png")
    (root / "cut.png").write_bytes((root / "0.png").read_bytes()[:60])
    return root


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_parts, "_images_per_part", lambda _: 4)


def rows(*paths: Path) -> list[dict[str, Any]]:
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def assert_same_rows(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Check that rows are equal; scores of other batches may differ in the last digits."""
    assert [row["path"] for row in found] == [row["path"] for row in wanted]
    for name in ("class_name", "anomalous", "reason"):
        assert [row[name] for row in found] == [row[name] for row in wanted]
    for name in ("score", "p_value"):
        numbers = [np.array([row[name] for row in table], dtype=float) for table in (found, wanted)]
        np.testing.assert_allclose(*numbers, rtol=1e-5)


@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_merged_shards_are_the_table_of_one_process(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path, options: list[str]
) -> None:
    whole, merged = tmp_path / "whole.parquet", tmp_path / "merged.parquet"
    source = (str(detector_file), str(folder), "fashion:unseen#test")
    assert run_oddone("score", *source, *options, "--out", str(whole))[0] == 0
    shards = [tmp_path / f"{number}.parquet" for number in (3, 1, 2)]
    for shard in shards:
        code, _, complained = run_oddone(
            "score", *source, *options, "--shard", f"{shard.stem}/3", "--out", str(shard)
        )
        assert code == 0, complained
    sizes = [len(rows(shard)) for shard in shards]
    assert sum(sizes) == IMAGES + 400
    assert max(sizes) - min(sizes) <= 1
    code, _, complained = run_oddone("score", "--merge", *map(str, shards), "--out", str(merged))
    assert code == 0
    assert f"{IMAGES + 400} images of 3 shares" in complained
    assert_same_rows(rows(merged), rows(whole))
    assert rows(merged)[0].keys() == rows(whole)[0].keys()


def make_shards(run_oddone: Run, detector: Path, folder: Path, out: Path) -> list[Path]:
    out.mkdir()
    shards = [out / f"{number}.parquet" for number in (1, 2)]
    for shard in shards:
        words = (str(detector), str(folder), "--shard", f"{shard.stem}/2", "--out", str(shard))
        assert run_oddone("score", *words)[0] == 0
    return shards


def test_shards_that_do_not_belong_together_are_not_merged(
    run_oddone: Run, detector_file: Path, uncalibrated_file: Path, folder: Path, tmp_path: Path
) -> None:
    first, second = make_shards(run_oddone, detector_file, folder, tmp_path / "a")
    _, of_other = make_shards(run_oddone, uncalibrated_file, folder, tmp_path / "b")
    copy = tmp_path / "copy.parquet"
    shutil.copy(first, copy)
    plain = tmp_path / "plain.parquet"
    run_oddone("score", str(detector_file), str(folder), "--out", str(plain))
    Image.new("RGB", (9, 9)).save(folder / "new.png")
    changed = tmp_path / "changed.parquet"
    words = (str(detector_file), str(folder), "--shard", "2/2", "--out", str(changed))
    run_oddone("score", *words)
    for files, message in (
        ([first], "of 2 shares 1 is missing: 2; score it first"),
        ([first, copy, second], f"{copy} and {first} are both share 1 of 2"),
        ([first, of_other], f"{of_other} was made by another detector than {first}"),
        ([first, changed], f"{changed} was made of other images, or of images that have changed"),
        ([first, plain], f"{plain} is no share of a table"),
        ([first, tmp_path / "gone.parquet"], "gone.parquet is no share of a table"),
    ):
        out = tmp_path / "all.csv"
        code, _, complained = run_oddone("score", "--merge", *map(str, files), "--out", str(out))
        assert code == 2
        assert message in complained
        assert complained.count("\n") == 1
        assert not out.exists()


def test_the_most_anomalous_of_all_shards_come_first(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    shards = make_shards(run_oddone, detector_file, folder, tmp_path / "a")
    code, printed, _ = run_oddone("score", "--merge", *map(str, shards), "--top", "2")
    scores = sorted((row["score"] for row in rows(*shards) if row["score"]), reverse=True)
    assert code == 0
    assert [float(line.split(",")[2]) for line in printed.splitlines()[1:]] == scores[:2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "17/16", "--out", "{out}.parquet"], "choose one of 1/16 to 16/16"),
        (["--shard", "0/16", "--out", "{out}.parquet"], "choose one of 1/16 to 16/16"),
        (["--shard", "third", "--out", "{out}.parquet"], "write which of how many, such as 3/16"),
        (["--shard", "3/16", "--out", "{out}.parquet"], "16 shards of 11 files leave some without"),
        (["--shard", "1/2", "--out", "{out}.csv"], "--shard 1/2 needs --out NAME.parquet"),
        (["--shard", "1/2"], "--shard 1/2 needs --out NAME.parquet"),
        (["--shard", "1/2", "--top", "3", "--out", "{out}.parquet"], "--top does not go with"),
        (["--shard", "1/2", "--engine", "ray", "--out", "{out}.parquet"], "choose one of them"),
        (["--out", "{out}", "--sort", "score"], "--sort does not go with --out"),
        (["--engine", "ray"], "name a folder for them with --out FOLDER"),
        (["--engine", "ray", "--out", "{out}.csv"], "name a folder for them with --out FOLDER"),
        (["--workers", "2"], "--workers is for Ray; add --engine ray"),
        (["--engine", "ray", "--workers", "0", "--out", "{out}"], "choose 1 or more processes"),
        (["--out", "{out}/deeper"], "name a folder in one that exists"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
) -> None:
    words = [option.replace("{out}", str(tmp_path / "out")) for option in options]
    code, printed, complained = run_oddone("score", str(detector_file), str(folder), *words)
    assert (code, printed) == (2, "")
    assert message in complained
    assert complained.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


def test_a_bucket_is_scored_and_fitted_like_a_folder(
    run_oddone: Run,
    detector_file: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    fsspec.filesystem("memory").put(f"{folder}/", "/bucket/photos/good/", recursive=True)
    url, tables = "memory://bucket/photos/", []
    for number, source in enumerate((str(folder), url)):
        out = tmp_path / f"{number}.parquet"
        assert run_oddone("score", str(detector_file), source, "--out", str(out))[0] == 0
        tables.append([{**row, "path": Path(row["path"]).name} for row in rows(out)])
    assert_same_rows(*tables)
    detector = oddone.fit(url, encoder=Flatten(), image_size=16, false_alarms=0.5)
    assert detector.classes == ("good",)
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


# --- Parts ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_parts")
def test_parts_are_the_table_of_one_process_and_are_kept(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole.parquet", tmp_path / "scores"
    words = ("score", str(detector_file), str(folder))
    run_oddone(*words, "--out", str(whole))
    code, _, complained = run_oddone(*words, "--out", str(out))
    parts = sorted(out.glob("*.parquet"))
    assert code == 0
    assert f"1 unreadable; the rows are in 3 parts of {out}" in complained
    assert [len(rows(part)) for part in parts] == [4, 4, 3]
    assert_same_rows(rows(*parts), rows(whole))
    kept = parts[0].stat().st_mtime_ns
    parts[1].unlink()
    (out / ".oddone-0123456789abcdef.part").write_text("of a process that was killed")
    code, _, complained = run_oddone(*words, "--out", str(out))
    assert code == 0
    assert "2 of 3 parts are there already" in complained
    assert "11 images in" in complained
    assert parts[0].stat().st_mtime_ns == kept
    assert_same_rows(rows(*parts), rows(whole))
    merged = tmp_path / "merged.parquet"
    assert run_oddone("score", "--merge", *map(str, parts), "--out", str(merged))[0] == 0
    assert_same_rows(rows(merged), rows(whole))


@pytest.mark.usefixtures("_small_parts")
def test_parts_of_another_run_are_refused(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores"
    words = ("score", str(detector_file), str(folder), "--out", str(out))
    assert run_oddone(*words)[0] == 0
    before = {path: path.read_bytes() for path in out.iterdir()}

    def refused(*other: str) -> str:
        code, _, complained = run_oddone(*other)
        assert code == 2
        assert complained.count("\n") == 1
        return complained

    other = tmp_path / "other.oddone"
    Detector.load(detector_file).calibrate(tiny_source(images=60, seed=9), false_alarms=0.2).save(
        other
    )
    assert "by another detector" in refused("score", str(other), *words[2:])
    assert "with other columns (--explain)" in refused(*words, "--explain")
    part = out / "part-000002.parquet"
    part.write_bytes(b"damaged")
    assert f"{part} is damaged, or of another run; remove it" in refused(*words)
    part.write_bytes(before[part])
    Image.new("RGB", (9, 9)).save(folder / "new.png")
    assert "of images that have changed since" in refused(*words)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    strange = tmp_path / "mine"
    strange.mkdir()
    (strange / "letter.txt").write_text("mine")
    assert "holds letter.txt, and no parts" in refused(*words[:-1], str(strange))


@pytest.mark.usefixtures("_small_parts")
def test_a_picture_that_was_replaced_under_its_name_is_not_mixed_with_older_rows(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores"
    words = ("score", str(detector_file), str(folder), "--out", str(out))
    assert run_oddone(*words)[0] == 0
    first, *_ = make_shards(run_oddone, detector_file, folder, tmp_path / "before")
    Image.new("RGB", (99, 99)).save(folder / "9.png")
    code, _, complained = run_oddone(*words)
    assert code == 2
    assert "of images that have changed since" in complained
    _, second = make_shards(run_oddone, detector_file, folder, tmp_path / "after")
    code, _, complained = run_oddone("score", "--merge", str(first), str(second))
    assert code == 2
    assert "of other images, or of images that have changed" in complained


@pytest.mark.usefixtures("_small_parts")
def test_what_became_of_the_list_of_pieces_does_not_matter(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores"
    words = ("score", str(detector_file), str(folder), "--out", str(out))
    assert run_oddone(*words)[0] == 0
    listed, part = out / score_parts.PIECES, out / "part-000002.parquet"
    whole, before = listed.read_bytes(), rows(part)
    for damaged in (
        b"",
        whole[: len(whole) // 2],
        b"null\n" * len(whole),
        whole.replace(b"5.png", b"8.png"),  # of the second part
    ):
        assert damaged != whole
        listed.write_bytes(damaged)
        part.unlink()
        code, _, complained = run_oddone(*words)
        assert code == 0, complained
        assert listed.read_bytes() == whole
        assert rows(part) == before


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "null",
        "[1]",
        "{}",
        '{"part": 1e999, "pieces": []}',
        '{"part": 1, "pieces": 5}',
        '{"part": 1, "pieces": [[]]}',
        "[" * 20_000,
    ],
)
def test_a_line_of_pieces_that_is_damaged_under_a_worker_is_an_error(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / score_parts.PIECES).write_text(line)
    with pytest.raises(DataError, match="pieces.jsonl is damaged; the same command writes it"):
        score_parts._read_part(tmp_path, 0)


def test_two_commands_do_not_write_parts_into_one_folder_at_a_time(
    run_oddone: Run, detector_file: Path, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores"
    out.mkdir()
    with lock_folder(out):
        code, _, complained = run_oddone(
            "score", str(detector_file), str(folder), "--out", str(out)
        )
    assert code == 2
    assert f"{out} is in use by process" in complained
    assert list(out.iterdir()) == []


def test_a_folder_in_which_nothing_can_be_read_is_an_error(
    run_oddone: Run, detector_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("no picture")
    words = (str(detector_file), str(tmp_path / "photos"), "--out", str(tmp_path / "scores"))
    code, _, complained = run_oddone("score", *words)
    assert code == 2
    assert "none of the 1 file can be read; the rows say why" in complained


def test_the_pieces_of_a_part_are_read_again_as_they_were_written(tmp_path: Path) -> None:
    pieces = ["a.png", "bare/\udcff.png", PackedPiece("tar", "a.tar", 9), "b.png"]
    plan = score_parts._write_pieces(tmp_path / score_parts.PIECES, pieces, batch_size=2)
    lines = (tmp_path / score_parts.PIECES).read_bytes().splitlines()
    assert [json.loads(line)["part"] for line in lines] == [1, 2, 3]  # a tar is a part by itself
    assert plan.images == 0  # nobody knows how many are in a tar
    read = [score_parts._read_part(tmp_path, offset)[1] for offset in plan.offsets]
    assert read == [pieces[:2], pieces[2:3], pieces[3:]]


def test_shares_follow_each_other_and_are_the_whole() -> None:
    pieces = [f"{number}.png" for number in range(10)]
    shares = [list(share_of(pieces, number, 4)) for number in (1, 2, 3, 4)]
    assert [len(share) for share in shares] == [2, 3, 2, 3]
    assert list(chain(*shares)) == pieces
    assert parse_shard("04/04") == (4, 4)
    with pytest.raises(SettingsError, match="11 shards of 10 files .* any; .* at most 10 shards$"):
        share_of(pieces, 1, 11)


def test_a_tar_is_never_cut_into_shards() -> None:
    with pytest.raises(SettingsError) as caught:
        share_of([PackedPiece("tar", "a.tar", 9)], 1, 2)
    assert str(caught.value) == (
        "2 shards of 1 file leave some without any (a tar is one piece, however many images it "
        "holds); choose at most 1 shard"
    )


def test_missing_shares_are_counted_in_words_that_fit(tmp_path: Path) -> None:
    note = ShareNote(detector="a", source="b", number=2, shares=3, neighbours=0)
    with pytest.raises(SettingsError, match="of 3 shares 2 are missing: 1, 3; score them first"):
        _check_none_is_missing({2: (tmp_path, note)})
