"""The names that `motet.spark` exports."""

import ast
from pathlib import Path

import motet.spark


def test_every_public_name_is_loaded_on_first_use() -> None:
    """The names of `__all__` are functions of the modules behind them."""
    assert {name: getattr(motet.spark, name).__name__ for name in motet.spark.__all__} == {
        name: name for name in motet.spark.__all__
    }


def test_the_stub_declares_the_public_names() -> None:
    """Type checkers see in `__init__.pyi` the names that programs can import, and where they come from."""
    stub = ast.parse(Path(motet.spark.__file__).with_suffix(".pyi").read_text())
    declared = {
        alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert declared == {name: getattr(motet.spark, name).__module__ for name in motet.spark.__all__}
