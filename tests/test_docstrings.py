"""The docstrings of what is public: they name every parameter, and their examples run."""

import ast
import dataclasses
import doctest
import functools
import inspect
import re
import sys
import textwrap
from typing import Any

import pytest

import oddone
import oddone.api
from oddone import baselines, presets

FACADE = {f"oddone.{name}": getattr(oddone, name) for name in oddone.__all__}
PRESETS = {
    f"oddone.presets.{name}": preset
    for name, preset in inspect.getmembers(presets, inspect.isfunction)
    if preset.__module__ == presets.__name__
}
BASELINES = {f"oddone.baselines.{name}": getattr(baselines, name) for name in baselines.__all__}
PUBLIC: dict[str, Any] = FACADE | PRESETS | BASELINES


def is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def test_the_public_things_are_found() -> None:
    assert {"oddone.train", "oddone.load", "oddone.Detector", "oddone.presets.smoke"} <= set(PUBLIC)
    assert {"oddone.baselines.msp", "oddone.baselines.mds"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_described(name: str) -> None:
    assert undescribed(PUBLIC[name]) == set()


def test_a_parameter_without_a_description_is_found() -> None:
    def shrink(image: int, size: int) -> int:
        """Return the image, smaller.

        Parameters
        ----------
        image
            What to shrink.

        """
        return image * size

    assert undescribed(shrink) == {"size"}


@pytest.mark.parametrize("name", [name for name in PUBLIC if not is_error(PUBLIC[name])])
def test_everything_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(PUBLIC[name]) or "")


def test_every_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one test, so that a detector that several examples train is trained once."""
    trained_once = functools.lru_cache(oddone.api.train)
    monkeypatch.setitem(vars(oddone), "train", trained_once)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    finder = doctest.DocTestFinder(recurse=False)
    report: list[str] = []
    for name, thing in PUBLIC.items():
        for example in finder.find(thing, name, module=sys.modules[thing.__module__]):
            runner.run(example, out=report.append)
    assert runner.tries > len(PUBLIC)
    assert report == []
    assert trained_once.cache_info().misses == 2


def undescribed(thing: Any) -> set[str]:
    """Return the parameters of a function, or the fields of a class, that nothing is said about."""
    if is_error(thing):
        return set()  # a message
    if dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        return fields_without_a_docstring(thing)
    described = re.findall(
        r"^(\w+)(?: : .*)?$", sections(thing).get("Parameters", ""), re.MULTILINE
    )
    return set(inspect.signature(thing).parameters) - set(described)


def fields_without_a_docstring(kind: type) -> set[str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    following = zip(definition.body, [*definition.body[1:], None], strict=True)
    return {
        ast.unparse(statement.target)
        for statement, after in following
        if isinstance(statement, ast.AnnAssign)
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    }


def sections(thing: object) -> dict[str, str]:
    """Return the sections of a docstring, by their headings."""
    _, *parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))
