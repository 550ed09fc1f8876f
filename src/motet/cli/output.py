"""Prints results as tables or JSON on standard output, and progress and warnings on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from motet.model.errors import ConflictError, DecodeError, UsageError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

PRINTED_REJECTIONS = 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str))


def print_table(rows: Iterable[Sequence[object]], *, headers: Sequence[str] = ()) -> None:
    """Columns of text; numbers are aligned right."""
    from rich.console import Console

    Console(soft_wrap=False).print(make_table(rows, headers=headers))


def make_table(rows: Iterable[Sequence[object]], *, headers: Sequence[str] = (), **options: Any) -> Table:
    """A table whose cells show values literally; ``options`` are those of a rich table. All tables are made here."""
    from rich.table import Table

    rows = [list(row) for row in rows]
    table = Table(**{"box": None, "show_header": bool(headers), "padding": (0, 2, 0, 0)} | options)
    for index in range(max(map(len, [headers, *rows]))):
        is_numeric = bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(headers[index] if headers else "", justify="right" if is_numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_literal, row))
    return table


def _literal(value: object) -> Text:
    """A cell that is not read as rich markup, so that ``urn:x:6`` is not an emoji; a rich text stays as it is."""
    from rich.text import Text

    return value if isinstance(value, Text) else Text(_cell(value))


def print_fields(fields: Mapping[str, object]) -> None:
    """One line for each name and value."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print(f"{name.replace('_', ' '):<{width}}  {_cell(value)}")


def print_tree(lines: Iterable[tuple[str, str, str]], note: str = "") -> None:
    """Print a tree of (branch, text, kind) lines, in colour on a terminal; the note goes to standard error."""
    from rich.console import Console
    from rich.text import Text

    styles = {"head": "bold", "operator": "bold yellow", "leaf": "bold cyan", "fact": ""}
    console = Console(highlight=False, soft_wrap=True)
    for branch, text, kind in lines:
        console.print(Text.assemble((branch, "dim"), (printable(text), styles[kind])))
    if note:
        warn(note)


def warn(message: str) -> None:
    """Print a message on standard error; control characters of the data it names are escaped."""
    print("\n".join(map(printable, message.split("\n"))), file=sys.stderr)


class Rejections:
    """Counts the rejected events of a command, prints the first of them, and writes all as dead letters.

    A path `-` is standard output.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        self.count = 0
        self.conflicts = 0

    def __call__(self, rejected: Sequence[DecodeError]) -> None:
        for error in rejected[: max(0, PRINTED_REJECTIONS - self.count)]:
            warn(f"rejected: {error}")
        if rejected and self.path is not None:
            from motet.codec.rejections import dead_letters, write_dead_letters

            if self.path == "-":
                print(dead_letters(rejected), end="")
            else:
                write_dead_letters(self.path, rejected)
        self.count += len(rejected)
        self.conflicts += sum(isinstance(error, ConflictError) for error in rejected)


class NotifiedSubscriptions:
    """A sink for the lines of notifications that notes the names of their subscriptions."""

    _NAME = re.compile(rb'"subscription": "([^"\\]*)"\}\n')

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self.names: set[str] = set()
        self._rest = b""

    def write(self, data: bytes) -> int:
        text = self._rest + bytes(data)
        self.names.update(name.decode() for name in set(self._NAME.findall(text)))
        self._rest = text[text.rfind(b"\n") + 1 :]
        return self._sink.write(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._sink.flush()

    def as_file(self) -> BinaryIO:
        """Itself, as what engines write to: they only call these methods."""
        return cast(BinaryIO, self)


@contextmanager
def byte_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """A progress bar for the bytes or events of files, on standard error; hidden when that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        yield progress


@contextmanager
def record_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar; yields a function that takes the number of records or cases just done. Hidden as above."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def status_line(title: str) -> Iterator[Callable[[str], None]]:
    """A line for work without an end; yields a function that updates its text. Hidden as above."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda note: None
        return
    with console.status(title) as status:
        yield lambda note: status.update(Text(f"{title}: {note}"))


@contextmanager
def percentage_bar(title: str) -> Iterator[Callable[[float], None]]:
    """A progress bar that appears with the first percentage; yields a function that takes these. Hidden as above."""
    with ExitStack() as stack:
        bars: list[Callable[[float], None]] = []

        def show(percentage: float) -> None:
            if not bars and sys.stderr.isatty():
                bars.append(stack.enter_context(_percentages(title)))
            for bar in bars:
                bar(percentage)

        yield show


@contextmanager
def _percentages(title: str) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=100)
        yield lambda percentage: progress.update(task, completed=percentage)


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Standard output, also for `-`, or a file that appears under its name only when it is complete."""
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    target = Path(path).resolve()  # a link stays one
    is_device = target.exists() and not target.is_file()  # also a pipe: it must not be replaced by a file
    partial = target if is_device else Path(f"{target}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        if not is_device:
            partial.replace(target)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", advice="Choose another --output.") from error
    finally:
        if not is_device:
            partial.unlink(missing_ok=True)


def write_svg(path: str, drawing: str) -> None:
    """Write a drawing to the file of --svg, or to standard output for `-`."""
    if path == "-":
        print(drawing)
        return
    try:
        Path(path).write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", advice="Choose another --svg.") from error


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ")
    if isinstance(value, float):
        return f"{value:,.2f}".replace(",", " ")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(count)}" for name, count in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    return "" if value is None else printable(str(value))


def printable(text: str) -> str:
    """The text with control characters escaped: a terminal would obey them."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)
