"""Advice in messages names only commands and options that exist."""

import argparse
import ast
import re
from pathlib import Path

import motet
from motet.cli.main import COMMANDS, make_parser

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND = re.compile(r"`motet ([a-z][a-z-]*)|\bmotet ([a-z][a-z-]*) --")
OTHERS = {"--add-modules"}  # of Java


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a parser and of its commands."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            found.update(*(options(command) for command in action.choices.values()))
    return found


def texts() -> list[tuple[str, str]]:
    """The string constants of the package, with the file of each."""
    return [
        (path.name, node.value)
        for path in Path(motet.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_options_exist() -> None:
    """An option that a message or docstring names is one of a command."""
    known = options(make_parser([])) | OTHERS
    assert [(path, option) for path, text in texts() for option in OPTION.findall(text) if option not in known] == []


def test_commands_exist() -> None:
    """The same for `motet COMMAND`."""
    named = [(path, first or second) for path, text in texts() for first, second in COMMAND.findall(text)]
    assert [each for each in named if each[1] not in COMMANDS] == []
    assert len(named) > 20
