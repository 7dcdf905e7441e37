import ast
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import oddone


def test_importing_oddone_imports_neither_torch_nor_numpy(
    run_python: Callable[[str], str],
) -> None:
    loaded = run_python(
        """
        import sys, oddone
        print([name for name in ("torch", "numpy", "sklearn") if name in sys.modules])
        """
    )
    assert loaded == "[]"


def test_every_public_name_can_be_had() -> None:
    for name in oddone.__all__:
        assert getattr(oddone, name).__name__ == name
        assert name in dir(oddone)


def test_type_checkers_are_told_the_same_names_as_users() -> None:
    tree = ast.parse(Path(oddone.__file__).read_text())
    told = {
        (f"oddone.{module}", name) for module, names in oddone._PUBLIC.items() for name in names
    }
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        (node.module, alias.asname)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == told


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Detecter'"):
        _ = oddone.Detecter


def test_the_version_is_the_installed_one() -> None:
    assert oddone.__version__ == version("oddone")
