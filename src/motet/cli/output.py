"""How commands speak: JSON for programs, tables for people, progress and complaints on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from motet.model.errors import DecodeError, UsageError

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_REJECTIONS = 10


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str))


def print_table(rows: Iterable[Sequence[object]], *, headers: Sequence[str] = ()) -> None:
    """Columns of text, the numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=bool(headers), padding=(0, 2, 0, 0))
    rows = [list(row) for row in rows]
    for index in range(max(map(len, rows), default=0)):
        numeric = all(isinstance(row[index], int | float) for row in rows if row[index] is not None)
        table.add_column(headers[index] if headers else "", justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(soft_wrap=False).print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Name and value, one a line."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<{width}}  {_cell(value)}")


def complain(message: str) -> None:
    print(message, file=sys.stderr)


class Rejections:
    """Shows the first few rejected events of a command, sets all of them aside, counts them."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        self.count = 0

    def __call__(self, rejected: Sequence[DecodeError]) -> None:
        for error in rejected[: max(0, SHOWN_REJECTIONS - self.count)]:
            complain(f"rejected: {error}")
        if rejected and self.path is not None:
            from motet.codec.rejections import write_dead_letters

            write_dead_letters(self.path, rejected)
        self.count += len(rejected)


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Progress]:
    """A bar for bytes read, on standard error; silent when that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        yield progress


@contextmanager
def records_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that is told how many more records have been read; silent as above."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """A line on standard error that says how far something without an end has got; silent as above."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda note: None
        return
    with console.status(what) as status:
        yield lambda note: status.update(f"{what}: {note}")


@contextmanager
def sink(path: str | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears only when it is whole."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    partial = Path(f"{path}.partial")
    try:
        with partial.open("wb") as opened:
            yield opened
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", advice="Choose another --output.") from error
    finally:
        partial.unlink(missing_ok=True)


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
    return "" if value is None else str(value)
