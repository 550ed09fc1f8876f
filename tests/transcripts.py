"""Executes the pages that show files, commands and programs with what they print.

A block with a caption is a file of that name. Lines after ``$`` in a ``console`` block are commands of a shell, and
what follows them is their output; a ``text`` block after a ``python`` block is what that block prints. In an output,
``…`` stands for any text, and a line with nothing else for any lines.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"

_FENCE = re.compile(r"^```(\{code-block\} )?(\w+)\n(?::caption: (\S+)\n\n?)?(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*?)$\n?(.*?)(?=^\$ |\Z)", re.MULTILINE | re.DOTALL)


def run_page(name: str, folder: Path, scope: dict[str, object] | None = None) -> int:
    """Execute a page of the documentation in a folder; returns the number of outputs that were compared."""
    shell, compared, printed = Shell(folder), 0, ""
    scope = {} if scope is None else scope
    for language, caption, text in _blocks((DOCS / name).read_text(encoding="utf-8")):
        if caption:
            (folder / caption).write_text(text, encoding="utf-8")
        elif language == "console":
            for command, shown in _COMMAND.findall(text):
                compare(command, shown, shell.run(command))
                compared += 1
        elif language == "python":
            printed = run_python(text, scope, name)
        elif language == "text":
            compare("the block before", text, printed)
            compared, printed = compared + 1, ""
    return compared


def _blocks(page: str) -> Iterator[tuple[str, str, str]]:
    for _, language, caption, text in _FENCE.findall(page):
        yield language, caption, text


def run_python(text: str, scope: dict[str, object], name: str) -> str:
    """What a block prints."""
    with redirect_stdout(io.StringIO()) as output:
        exec(compile(text, name, "exec"), scope)  # noqa: S102
    return output.getvalue()


class Shell:
    """Runs commands in a folder, where `motet` is this project's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        binary = folder / ".bin"
        binary.mkdir()
        program = binary / "motet"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore -m motet.cli.main "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join([str(binary), os.environ["PATH"]])
        self._variables = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}

    def run(self, command: str) -> str:
        """The output and error output of a command, in the order in which they were written."""
        ran = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self._folder, env=self._variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        return ran.stdout


def compare(command: str, shown: str, printed: str) -> None:
    """Fail unless what was printed is what the page shows."""
    expected = "".join(_pattern(line) for line in shown.strip("\n").splitlines())
    actual = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    assert re.fullmatch(expected, actual), f"{command} prints\n{actual}\nbut the page shows\n{shown}"


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"\n"
