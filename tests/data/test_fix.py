import csv
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.data import stream
from oddone.data.fix import aliased_resize, fix_images, fixed_resize
from oddone.errors import DataError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve pictures of one colour each, in two subfolders."""
    for index in range(12):
        path = tmp_path / "photos" / ("a", "b")[index % 2] / f"{index:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40 + index, 30), (20 * index, 0, 0)).save(path)
    return tmp_path / "photos"


def reds(out: Path) -> list[int]:
    """Return which of the twelve colours each written picture has."""
    return [
        np.asarray(Image.open(path))[0, 0, 0].item() // 20 for path in sorted(out.glob("*.png"))
    ]


def triangle(distance: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(distance), 0, None)


def bilinear_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the antialiased bilinear weights, by their definition."""
    scale = size / new_size
    centres = (np.arange(new_size) + 0.5) * scale
    pixels = np.arange(size) + 0.5
    weights = triangle((pixels - centres[:, None]) / max(scale, 1))
    return weights / weights.sum(axis=1, keepdims=True)


def test_all_pictures_become_32_by_32_png_in_the_order_of_their_paths(
    photos: Path, tmp_path: Path
) -> None:
    fixed = fix_images(photos, tmp_path / "out", count=None, seed=0)
    assert fixed == (12, (), {})
    assert reds(tmp_path / "out") == [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    with Image.open(tmp_path / "out" / "000011.png") as last:
        assert (last.format, last.size, last.mode) == ("PNG", (32, 32), "RGB")


def test_the_pictures_are_those_that_every_command_takes(photos: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (photos / "a" / "00.png").rename(photos / "a" / "without-ending")
    (photos / "a" / "02.png").rename(photos / "a" / "._02.png")  # as macOS leaves beside each
    (photos / "a" / "04.png").rename(elsewhere / "04.png")
    (photos / "linked").symlink_to(elsewhere)
    (photos / ".thumbnails").mkdir()
    (photos / "a" / "06.png").rename(photos / ".thumbnails" / "06.png")
    (photos / "notes.txt").touch()
    fixed = fix_images(photos, tmp_path / "out", count=None, seed=0)
    assert fixed == (10, (), {".txt": 1})
    taken = stream(str(photos), size=32)
    with (tmp_path / "out" / "sources.csv").open(newline="") as file:
        sources = [str(photos / row["source"]) for row in csv.DictReader(file)]
    assert sources == sorted(image.path for image in taken)


def test_sources_say_where_each_picture_came_from(photos: Path, tmp_path: Path) -> None:
    fix_images(photos, tmp_path / "out", count=5, seed=3)
    with (tmp_path / "out" / "sources.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["picture"] for row in rows] == [f"00000{index}.png" for index in range(5)]
    assert [int(Path(row["source"]).stem) for row in rows] == reds(tmp_path / "out")


def test_the_same_seed_draws_the_same_pictures_and_another_seed_others(
    photos: Path, tmp_path: Path
) -> None:
    for out, seed in (("one", 0), ("same", 0), ("other", 1)):
        fix_images(photos, tmp_path / out, count=6, seed=seed)
    one, same, other = (reds(tmp_path / out) for out in ("one", "same", "other"))
    assert one == same
    assert len(set(one)) == 6
    assert one != other


def test_fewer_pictures_are_the_first_of_more(photos: Path, tmp_path: Path) -> None:
    fix_images(photos, tmp_path / "few", count=3, seed=0)
    fix_images(photos, tmp_path / "many", count=9, seed=0)
    assert reds(tmp_path / "few") == reds(tmp_path / "many")[:3]


def test_fixed_is_the_weighted_mean_of_all_pixels_of_the_centre() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    small = np.asarray(fixed_resize(Image.fromarray(noise))).astype(float)
    rows, columns = bilinear_matrix(300, 256), bilinear_matrix(400, 341)
    middle = np.einsum("rh,hwc,kw->rkc", rows, noise, columns, optimize=True)[
        :, round((341 - 256) / 2) :
    ][:, :256]
    shrink = bilinear_matrix(256, 32)
    expected = np.einsum("rh,hwc,kw->rkc", shrink, middle, shrink, optimize=True)
    assert np.abs(small - expected).max() < 1.5  # Pillow rounds to whole numbers in between


def test_fixed_takes_the_centre_of_a_long_picture() -> None:
    picture = Image.new("RGB", (900, 300), "red")
    picture.paste("blue", (300, 0, 600, 300))
    small = np.asarray(fixed_resize(picture))
    assert (small[:, 1:-1] == (0, 0, 255)).all()


def test_a_small_picture_is_enlarged_first() -> None:
    assert fixed_resize(Image.new("RGB", (7, 5), "red")).size == (32, 32)


def test_aliased_drops_pixels_where_fixed_averages_them() -> None:
    stripes = np.zeros((256, 256, 3), dtype=np.uint8)
    stripes[:, 4::8] = 255  # one column of eight, the one that subsampling hits
    picture = Image.fromarray(stripes)
    assert (np.asarray(aliased_resize(picture)) == 255).all()
    assert np.asarray(fixed_resize(picture)).max() < 64


def test_aliased_pictures_have_only_colours_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    checks = (np.indices((100, 75)).sum(axis=0) % 2 * 255).astype(np.uint8)
    Image.fromarray(checks).save(tmp_path / "photos" / "checks.png")
    fix_images(tmp_path / "photos", tmp_path / "out", count=None, seed=0, aliased=True)
    assert set(np.asarray(Image.open(tmp_path / "out" / "000000.png")).flat) == {0, 255}


def test_the_camera_s_orientation_is_applied(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    picture = Image.new("RGB", (64, 64), "black")
    picture.paste("white", (0, 0, 64, 32))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise: top becomes right
    picture.save(tmp_path / "photos" / "turned.png", exif=exif)
    fix_images(tmp_path / "photos", tmp_path / "out", count=None, seed=0)
    small = np.asarray(Image.open(tmp_path / "out" / "000000.png"))
    assert small[:, -1].min() > 250
    assert small[:, 0].max() < 5


def test_broken_files_are_listed_and_replaced_by_the_next_drawn(
    photos: Path, tmp_path: Path
) -> None:
    fix_images(photos, tmp_path / "before", count=12, seed=0)
    first, second, *rest = reds(tmp_path / "before")
    names = {index: next(photos.rglob(f"{index:02d}.png")) for index in (first, second)}
    names[first].write_bytes(b"")
    names[second].write_bytes(names[second].read_bytes()[:60])
    fixed = fix_images(photos, tmp_path / "out", count=4, seed=0)
    assert fixed.written == 4
    assert [Path(file.path).name for file in fixed.broken] == [
        f"{first:02d}.png",
        f"{second:02d}.png",
    ]
    assert all(file.reason for file in fixed.broken)
    assert reds(tmp_path / "out") == rest[:4]


def test_a_picture_too_long_to_enlarge_is_listed(photos: Path, tmp_path: Path) -> None:
    Image.new("RGB", (3000, 1)).save(photos / "line.png")
    fixed = fix_images(photos, tmp_path / "out", count=None, seed=0)
    assert fixed.written == 12
    assert "3000 x 1" in fixed.broken[0].reason


def test_nothing_but_broken_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("no picture")
    with pytest.raises(DataError, match=r"none of the 1 files .* one\.jpg"):
        fix_images(tmp_path / "photos", tmp_path / "out", count=None, seed=0)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode elsewhere")
def test_a_name_that_is_no_unicode_is_a_name(photos: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.png")
    (photos / "a" / "00.png").rename(photos / odd)
    fix_images(photos, tmp_path / "out", count=12, seed=0)
    assert b"caf\\udce9.png" in (tmp_path / "out" / "sources.csv").read_bytes()


def test_progress_counts_to_the_pictures_wanted(photos: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    fix_images(
        photos, tmp_path / "out", count=3, seed=0, progress=lambda *now: seen.append(now[:2])
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_folder_with_something_in_it_is_not_written_to(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").touch()
    for out in (tmp_path / "out", tmp_path / "out" / "thesis.txt"):
        with pytest.raises(DataError, match="not empty; choose another folder"):
            fix_images(photos, out, count=None, seed=0)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_written_to(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert fix_images(photos, tmp_path / "out", count=1, seed=0).written == 1


@pytest.mark.parametrize("count", [0, -1, 13])
def test_more_pictures_than_there_are_cannot_be_drawn(
    photos: Path, tmp_path: Path, count: int
) -> None:
    with pytest.raises(DataError, match=f"count={count}: .* holds 12 pictures"):
        fix_images(photos, tmp_path / "out", count=count, seed=0)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        fix_images(tmp_path / "photos", tmp_path / "out", count=None, seed=0)
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="no images below"):
        fix_images(tmp_path / "photos", tmp_path / "out", count=None, seed=0)


@pytest.mark.parametrize("name", ["000001.png", "sources.csv"])
def test_a_full_disk_is_named_and_leaves_no_half_of_a_folder(
    photos: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_path = Path.open

    def open_full(path: Path, *arguments: str, **named: int) -> object:
        file = open_path(path, *arguments, **named)
        if path.name != name:
            return file
        file.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", open_full)  # write_bytes calls it, too
    with pytest.raises(DataError, match=f"{name} cannot be written: No space left .*; make room"):
        fix_images(photos, tmp_path / "out", count=None, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_what_a_killed_run_has_left_is_not_in_the_way(photos: Path, tmp_path: Path) -> None:
    left = tmp_path / ".oddone-0123456789abcdef.part"
    left.mkdir()
    (left / "000000.png").write_bytes(b"half")
    os.utime(left, (0, 0))
    assert fix_images(photos, tmp_path / "out", count=2, seed=0).written == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


def test_names_that_are_too_long_are_errors(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        fix_images(Path("x/" * 3000), tmp_path / "out", count=None, seed=0)
    with pytest.raises(DataError, match=r"cannot be made \(File name too long\)"):
        fix_images(photos, tmp_path / ("x/" * 3000), count=None, seed=0)
