"""The dict in a pickle of CIFAR's, read without an unpickler.

A pickle is a program for a machine with a stack. An unpickler runs it, and even one that admits
few names can be led astray: NumPy's own types, called with other arguments than NumPy writes, read
any memory. Here the operations are only walked through. They make text, numbers and containers;
what they say of an array is noted down, and its bytes are looked at by who asks for them.
"""

import pickletools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from oddone.errors import DataError

MOST_OPERATIONS = 1_000_000  # the official files have up to 300,000
LONGEST_LINE = 200  # bytes of a module and a name
PROTOCOLS = range(2, 6)  # what Python 2 wrote for the official files, and what Python 3 writes
_LAST_OF_LATIN1 = 0xC3  # the largest byte in the UTF-8 of latin1 text


class _Name(NamedTuple):
    """A function or type that a pickle names."""

    module: str
    name: str


class _DataType(NamedTuple):
    code: str
    """Such as u1."""


@dataclass
class PickledArray:
    """What a pickle says of an array. `pixels` believes it only where it fits."""

    shape: object = None
    dtype: object = None
    fortran_order: object = None
    content: object = None
    """Its bytes, or the same as latin1 text."""

    def pixels(self, columns: int) -> UInt8[np.ndarray, "rows columns"] | None:
        """Return an array of bytes with so many columns, or None if it is any other array."""
        match self.shape:
            case (int(rows), int(width)) if rows >= 1 and width == columns:
                size = rows * columns
            case _:
                return None
        if not isinstance(self.dtype, _DataType) or self.dtype.code not in ("u1", "|u1"):
            return None
        content = self.content
        if isinstance(content, str) and len(content) == size:
            content = memoryview(content.encode("latin1", "replace"))
        if not isinstance(content, memoryview) or len(content) != size:
            return None
        flat = np.frombuffer(content, dtype=np.uint8)
        return flat.reshape(rows, columns, order="F" if self.fortran_order else "C")


def read_pickled_dict(content: bytes, name: str) -> dict[str, Any]:
    """Return the dict in a pickle of protocol 2 to 5, and refuse what no CIFAR file has in it.

    Short bytes come as text of latin1, long ones as a view of the content, arrays as
    `PickledArray`. Messages call the file by `name`.
    """
    try:
        held = _Walk(name).run(content)
    except DataError:
        raise
    # Cut short, no pickle at all, or a pickle whose parts do not fit together.
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise DataError(f"{name} is damaged ({error}); get it from its authors") from error
    if not isinstance(held, dict):
        raise DataError(f"{name} holds no dict but {type(held).__name__}; get it from its authors")
    return held


class _Operation(NamedTuple):
    name: str
    argument: memoryview


def _operations(content: bytes, name: str) -> Iterator[_Operation]:
    """Yield the operations up to STOP. Nothing is copied, and no length is believed."""
    view, place = memoryview(content), 0
    for _ in range(MOST_OPERATIONS):
        operation = _OPERATIONS.get(content[place : place + 1])
        if operation is None:
            raise _unknown(content[place : place + 1], name)
        length, place = _argument_length(content, place + 1, operation.arg)
        if place + length > len(content):
            raise ValueError("it is cut short")
        yield _Operation(operation.name, view[place : place + length])
        place += length
        if operation.name == "STOP":
            return
    raise DataError(f"{name} has over {MOST_OPERATIONS:,} parts; get it from its authors")


def _argument_length(content: bytes, place: int, argument: Any) -> tuple[int, int]:
    """Return how long the argument is and where it begins, after the number of its bytes if any."""
    if argument is None:
        return 0, place
    if argument.n in _LENGTH_BYTES:
        begin = place + _LENGTH_BYTES[argument.n]
        return int.from_bytes(content[place:begin], "little"), begin
    if argument.n == pickletools.UP_TO_NEWLINE:  # only GLOBAL: two lines
        first = content.index(b"\n", place, place + LONGEST_LINE)
        return content.index(b"\n", first + 1, first + LONGEST_LINE) + 1 - place, place
    return argument.n, place


class _Walk:
    """The stack and the memo of a pickle, and what each operation does to them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Return what the pickle holds."""
        for operation, argument in _operations(content, self._name):
            if operation in _VALUES:
                self._stack.append(_VALUES[operation](argument))
            elif operation in _TUPLES:
                self._stack.append(tuple(self._pop(_TUPLES[operation])))
            else:
                _ACTIONS[operation](self, argument)
        if len(self._stack) != 1:
            raise ValueError(f"it leaves {len(self._stack)} things")
        return self._stack[0]

    def _pop(self, count: int) -> list[Any]:
        if count > len(self._stack) - (self._marks[-1] if self._marks else 0):
            raise IndexError("it takes more from its stack than there is")
        taken = self._stack[-count:]
        del self._stack[-count:]
        return taken

    def _pop_to_mark(self) -> list[Any]:
        start = self._marks.pop()
        taken = self._stack[start:]
        del self._stack[start:]
        return taken

    def proto(self, version: memoryview) -> None:
        if version[0] not in PROTOCOLS:
            raise ValueError(f"a pickle of protocol {version[0]}")

    def ignore(self, _: memoryview) -> None:
        """Do nothing, as at the end, or where the file is cut into frames for reading."""

    def mark(self, _: memoryview) -> None:
        self._marks.append(len(self._stack))

    def tuple_(self, _: memoryview) -> None:
        self._stack.append(tuple(self._pop_to_mark()))

    def memoize(self, _: memoryview) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def put(self, place: memoryview) -> None:
        self._memo[int.from_bytes(place, "little")] = self._stack[-1]

    def get(self, place: memoryview) -> None:
        index = int.from_bytes(place, "little")
        if index not in self._memo:
            raise IndexError(f"it takes number {index} from its memo, which is not there")
        self._stack.append(self._memo[index])

    def append(self, _: memoryview) -> None:
        self._extend(self._pop(1))

    def appends(self, _: memoryview) -> None:
        self._extend(self._pop_to_mark())

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise TypeError("it appends to what is no list")
        self._stack[-1].extend(items)

    def setitem(self, _: memoryview) -> None:
        self._update(self._pop(2))

    def setitems(self, _: memoryview) -> None:
        self._update(self._pop_to_mark())

    def _update(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict) or not all(type(k) is str for k in items[::2]):
            raise TypeError("it has a dict whose keys are no text")
        self._stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def global_(self, lines: memoryview) -> None:
        module, name, _ = str(lines, "utf-8").split("\n")
        self._stack.append(self._admitted(module, name))

    def stack_global(self, _: memoryview) -> None:
        self._stack.append(self._admitted(*self._pop(2)))

    def _admitted(self, module: object, name: object) -> _Name:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("it asks for what has no name")
        if (module, name) not in _ADMITTED:
            raise DataError(
                f"{self._name} asks for {f'{module}.{name}'[:LONGEST_LINE]}, which no CIFAR file "
                f"needs and which may do harm; nothing was run. Get the file from its authors"
            )
        return _Name(module, name)

    def reduce(self, _: memoryview) -> None:
        """Note down what a call would make; nothing is called."""
        match self._pop(2):
            case [_Name(name="_reconstruct"), (_Name(name="ndarray"), (0,), "b")]:
                made: object = PickledArray()
            case [_Name(name="_frombuffer"), (content, dtype, shape, order)]:
                made = PickledArray(shape, dtype, order == "F", content)
            case [_Name(name="dtype"), (str(code), False | 0, True | 1)]:
                made = _DataType(code)
            case [_Name(name="encode"), (str(text), "latin1")]:
                made = text  # bytes, as Python 3 writes them for Python 2
            case [_Name(name="bytes"), ()]:
                made = ""
            case _:
                raise ValueError("it makes something else than arrays and bytes")
        self._stack.append(made)

    def build(self, _: memoryview) -> None:
        match [self._stack[-2], self._pop(1)[0]]:
            case [PickledArray(shape=None) as array, (1, shape, dtype, order, content)]:
                array.shape, array.dtype, array.fortran_order = shape, dtype, order
                array.content = content
            case [_DataType(), tuple()]:
                pass  # byte order and alignment, which single bytes have not
            case _:
                raise ValueError("it changes something else than an array")


def _text(utf8: memoryview) -> str:
    """Return text. If it is long it must be latin1, or a single mark would quadruple its memory."""
    if len(utf8) > LONGEST_LINE and np.frombuffer(utf8, np.uint8).max() > _LAST_OF_LATIN1:
        raise ValueError("a long text that is no latin1")
    return str(utf8, "utf-8")


def _latin1(content: memoryview) -> str:
    return str(content, "latin1")


def _number(content: memoryview) -> int:
    if len(content) > 8:
        raise ValueError(f"a number of {len(content)} bytes")
    return int.from_bytes(content, "little", signed=True)


def _unknown(code: bytes, name: str) -> DataError:
    if not code:
        return DataError(f"{name} is damaged (it is cut short); get it from its authors")
    return DataError(
        f"{name} is damaged, or not of protocol 2 to 5 (it has the operation {code!r} of pickles, "
        f"which no CIFAR file needs); get it from its authors"
    )


_VALUES: dict[str, Callable[[memoryview], object]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
    "EMPTY_TUPLE": lambda _: (),
    "BININT": _number,
    "BININT1": lambda argument: int.from_bytes(argument, "little"),
    "BININT2": lambda argument: int.from_bytes(argument, "little"),
    "LONG1": _number,
    "BINFLOAT": lambda argument: struct.unpack(">d", argument)[0],
    "SHORT_BINSTRING": _latin1,
    "SHORT_BINBYTES": _latin1,
    "BINSTRING": lambda argument: argument,
    "BINBYTES": lambda argument: argument,
    "BYTEARRAY8": lambda argument: argument,
    "SHORT_BINUNICODE": _text,
    "BINUNICODE": _text,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ACTIONS: dict[str, Callable[[_Walk, memoryview], None]] = {
    "PROTO": _Walk.proto,
    "FRAME": _Walk.ignore,
    "MARK": _Walk.mark,
    "TUPLE": _Walk.tuple_,
    "MEMOIZE": _Walk.memoize,
    "BINPUT": _Walk.put,
    "LONG_BINPUT": _Walk.put,
    "BINGET": _Walk.get,
    "LONG_BINGET": _Walk.get,
    "APPEND": _Walk.append,
    "APPENDS": _Walk.appends,
    "SETITEM": _Walk.setitem,
    "SETITEMS": _Walk.setitems,
    "GLOBAL": _Walk.global_,
    "STACK_GLOBAL": _Walk.stack_global,
    "REDUCE": _Walk.reduce,
    "BUILD": _Walk.build,
    "STOP": _Walk.ignore,
}
_OPERATIONS = {
    operation.code.encode("latin1"): operation
    for operation in pickletools.opcodes
    if operation.name in {*_VALUES, *_TUPLES, *_ACTIONS}
}
_LENGTH_BYTES = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    ("builtins", "bytes"),
    ("__builtin__", "bytes"),
}
