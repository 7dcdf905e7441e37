import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies

import oddone.data.pickled_dict as pickles
from memory import memory_below
from oddone.data.cifar import read_cifar10
from oddone.data.pickled_dict import PickledArray, read_pickled_dict
from oddone.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)


def dict_of(**values: bytes) -> bytes:
    """Return a pickle of a dict, each of whose values is made by the given operations."""
    items = [b"U" + bytes([len(key)]) + key.encode() + value for key, value in values.items()]
    return b"\x80\x03}(" + b"".join(items) + b"u."


def array_call(dtype: bytes, *arguments: bytes) -> bytes:
    """Return a call of numpy.ndarray itself, which no writer makes."""
    kind = b"cnumpy\ndtype\nU" + bytes([len(dtype)]) + dtype + b"\x85R"
    return b"cnumpy\nndarray\n(K\x02\x85" + kind + b"".join(arguments) + b"tR"


def batch_with_labels(operations: bytes) -> bytes:
    data = pickle.dumps(PIXELS, 3).removeprefix(b"\x80\x03").removesuffix(b".")
    return dict_of(data=data, labels=operations)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_things_are_read(protocol: int) -> None:
    plain = {"a": [1, -2, 2**40, "two", b"three", b""], "b": {"c": (None, True, 2.5, ("é",))}}
    expected = {"a": [1, -2, 2**40, "two", "three", ""], "b": plain["b"]}
    assert read_pickled_dict(pickle.dumps(plain, protocol), "a file") == expected


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_bytes_are_read(protocol: int, order: str) -> None:
    array = np.array(PIXELS, order=order)  # type: ignore[call-overload]
    held = read_pickled_dict(pickle.dumps({b"data": array}, protocol), "a file")
    np.testing.assert_array_equal(held["data"].pixels(3072), PIXELS)
    assert held["data"].pixels(3071) is None


@pytest.mark.parametrize("array", [PIXELS.astype("i1"), PIXELS.astype("f8"), PIXELS[0]])
def test_other_arrays_are_no_pixels(array: np.ndarray) -> None:
    assert read_pickled_dict(pickle.dumps({"data": array}, 3), "x")["data"].pixels(3072) is None


@pytest.mark.filterwarnings("error")
def test_what_python_2_wrote_is_read_without_a_warning() -> None:
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\n"
        b"q\x04K\x00\x85q\x05U\x01bq\x06\x87q\x07Rq\x08(K\x01K\x01K\x02\x86q\tcnumpy\ndtype\nq\nU"
        b"\x02u1q\x0bK\x00K\x01\x87q\x0cRq\r(K\x03U\x01|q\x0eNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tq\x0fb\x89U\x02\xff\x07q\x10tq\x11bu."
    )
    held = read_pickled_dict(content, "a file")
    assert held["data"].pixels(2).tolist() == [[255, 7]]


# --- Distrust ---------------------------------------------------------------------------------


def test_an_array_is_never_laid_over_bytes_of_the_file(
    tmp_path: Path, run_python: Callable[[str], str]
) -> None:
    objects = array_call(b"O8", b"C\x10" + b"A" * 16)  # two pointers to nowhere
    (tmp_path / "test_batch").write_bytes(batch_with_labels(b"](" + 2 * objects + b"e"))
    said = run_python(f"""
        from pathlib import Path
        from oddone.data.cifar import read_cifar10
        try:
            read_cifar10(Path({str(tmp_path)!r}), "test")
        except ValueError as error:
            print(error)
    """)
    assert "is damaged (it makes something else than arrays and bytes)" in said


@pytest.mark.parametrize(
    "content",
    [
        dict_of(data=b"Nr\x00\x00\x00\x10"),  # number 2**28 of the memo
        dict_of(data=b"B\xff\xff\xff\x7fx"),  # 2 GB of bytes that are not there
        dict_of(data=b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fx"),
        dict_of(data=b"\x8b\xff\xff\xff\x7fx"),  # a number of 2 GB
    ],
)
def test_no_file_chooses_how_much_memory_is_taken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test_batch").write_bytes(content)
    with memory_below(10 * 2**20), pytest.raises(DataError, match="test_batch of"):
        read_cifar10(tmp_path, "test")


def test_the_number_of_operations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_OPERATIONS", 1000)
    with pytest.raises(DataError, match="a file has over 1,000 parts"):
        read_pickled_dict(b"\x80\x02" + b"}" * 1001, "a file")


def test_one_mark_does_not_quadruple_a_long_text() -> None:
    text = ("a" * 300 + "\N{GRINNING FACE}").encode()
    content = dict_of(data=b"X" + len(text).to_bytes(4, "little") + text)
    with pytest.raises(DataError, match="a long text that is no latin1"):
        read_pickled_dict(content, "a file")


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        b"cos\nsystem\n.",
        b"\x80\x04\x8c\x02os" + b"\x8c\xff" + b"x" * 255 + b"\x93.",
    ],
)
def test_only_a_few_names_are_admitted(content: bytes) -> None:
    with pytest.raises(DataError, match="asks for .{5,200}, which .* nothing was run"):
        read_pickled_dict(content, "a file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (dict_of(data=array_call(b"u1", b"C\x01AK\x00K\x00\x85")), "something"),  # a stride of zero
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "something"),
        (b"(dp0\n.", r"not of protocol 2 to 5 \(it has the operation b'd' of pickles"),
        (b"\x80\x07}.", "a pickle of protocol 7"),
        (b"\x80\x02}K\x01K\x02s.", "keys are no text"),
        (b"\x80\x02NK\x01a.", "appends to what is no list"),
        (b"\x80\x02h\x05.", "number 5 from its memo"),
        (b"\x80\x02a.", "more from its stack than there is"),
        (b"\x80\x02}}.", "leaves 2 things"),
        (b"\x80\x02}K\x01b.", "changes something else"),
        (b"\x80\x04NN\x93.", "asks for what has no name"),
        (b"\x80\x02}" + b"\x8a\x09" + b"x" * 9 + b".", "a number of 9 bytes"),
        (b"\x80\x02K\x01.", "holds no dict but int"),
        (b"\x80\x02c" + b"x" * 300 + b"\n.", "is damaged"),
        (b"\x80\x02}", "cut short"),
        (b"", "cut short"),
    ],
)
def test_what_does_not_fit_is_named(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"a file .*{message}"):
        read_pickled_dict(content, "a file")


def test_deep_nesting_is_harmless() -> None:
    deep = b"N" + b"\x85" * 10_000
    with pytest.raises(DataError, match="keys are no text"):
        read_pickled_dict(b"\x80\x02}" + deep + b"Ns.", "a file")
    with pytest.raises(DataError, match="has no name"):
        read_pickled_dict(b"\x80\x04" + deep + b"N\x93.", "a file")


@given(strategies.data())
def test_any_damage_is_named_or_harmless(data: strategies.DataObject) -> None:
    protocol = data.draw(strategies.integers(2, 5))
    content = bytearray(pickle.dumps({b"data": PIXELS[:, :40], b"labels": [1, 2]}, protocol))
    for _ in range(data.draw(strategies.integers(1, 4))):
        content[data.draw(strategies.integers(0, len(content) - 1))] = data.draw(
            strategies.integers(0, 255)
        )
    try:
        held = read_pickled_dict(bytes(content), "a file")
    except DataError as error:
        assert "a file" in str(error)  # noqa: PT017, either outcome is fine
    else:
        array = held.get("data")
        pixels = array.pixels(40) if isinstance(array, PickledArray) else None
        assert pixels is None or pixels.size <= len(content)
