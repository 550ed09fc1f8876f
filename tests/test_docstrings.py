"""The examples in docstrings are executed: each `>>>` line of src/motet prints what stands below it."""

import doctest
import importlib
from pathlib import Path

import pytest
from tests.house import SOURCE, files, module_name

EXAMPLES = [path for path in files() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_examples_print_what_they_say(path: Path) -> None:
    """A module is imported and its examples run; none of them starts Spark or needs a file that is not there."""
    results = doctest.testmod(importlib.import_module(module_name(path)))
    assert results.attempted > 0
    assert results.failed == 0
