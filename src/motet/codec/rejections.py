"""Problems of events and lines, the rejection of an event as one error, and the dead-letter file.

Each stage of decoding reports ``Problem``s; ``rejection`` combines the problems of one event into a DecodeError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from motet.model.errors import ConflictError, DecodeError

_SUBJECT = re.compile(r"\s*+(<[^<>\s]++>|_:[^\s<]++)\s")
CONTENT_BYTES = 64 * 1024  # content of a rejected event that its error quotes


@dataclass(frozen=True)
class Problem:
    """One defect of an event, or of input that belongs to no event."""

    reason: str
    advice: str | None = None
    line: int | None = None
    column: int | None = None
    content: str | None = None
    event: str | None = None  # set only when the problem is reported outside the batch of its event
    is_conflict: bool = False


@dataclass(frozen=True)
class BadLine:
    """A line that is not valid N-Quads, with the graph it belongs to if that can be recovered."""

    line: int
    column: int | None
    reason: str
    content: str
    graph: str | None

    @property
    def subject(self) -> str | None:
        """The term at the beginning of the line, if it can be a subject."""
        match = _SUBJECT.match(self.content)
        return match[1] if match else None

    @property
    def problem(self) -> Problem:
        advice = "correct the line and publish it again"
        return Problem(f"not N-Quads: {self.reason}", advice, self.line, self.column, self.content)


def rejection(
    source: str, event: str | None, problems: Sequence[Problem], quads: pa.RecordBatch | None = None
) -> DecodeError:
    """The error for one event: its first problem, the number of further ones, and its N-Quads lines.

    >>> str(rejection("a.nq", "urn:e:1", [Problem("two times", line=3)]))
    'a.nq, line 3: event <urn:e:1>: two times'
    """
    first = problems[0]
    more = f" (and {len(problems) - 1} more in the same event)" if len(problems) > 1 else ""
    line = first.line if first.line is not None else _first_line(quads)
    content = _content(problems, quads)
    return (ConflictError if first.is_conflict else DecodeError)(
        first.reason + more,
        source=source,
        line=line,
        column=first.column,
        event=event,
        content=content,
        advice=first.advice,
    )


def conflict_problem(line: int | None) -> Problem:
    """The problem of an event whose IRI an earlier event of the input has, with other content."""
    return Problem(
        "the input has an earlier event with this IRI and other content, which stays",
        "give each event an IRI of its own, or none",
        line,
        is_conflict=True,
    )


def nquads_lines(quads: pa.RecordBatch) -> list[str]:
    """Quads as N-Quads lines without newlines; a null graph is left out."""
    columns = (quads.column(name).to_pylist() for name in ("subject", "predicate", "object", "graph"))
    return [" ".join(term for term in (*terms, ".") if term is not None) for terms in zip(*columns, strict=True)]


def truncate(text: str) -> str:
    """The first ``CONTENT_BYTES`` of a text, with a note on how much is left out."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= CONTENT_BYTES:
        return raw.decode("utf-8", "replace")
    head = raw[:CONTENT_BYTES].decode("utf-8", "replace")
    return f"{head}\n# cut here: {len(raw) - CONTENT_BYTES} more bytes"


def _first_line(quads: pa.RecordBatch | None) -> int | None:
    return quads.column("line")[0].as_py() if quads is not None and quads.num_rows else None


def _content(problems: Sequence[Problem], quads: pa.RecordBatch | None) -> str | None:
    lines = [(problem.line or 0, problem.content) for problem in problems if problem.content is not None]
    if quads is not None:
        first_quads = quads.slice(0, CONTENT_BYTES // 8)  # a quad has at least 8 bytes
        lines += zip(first_quads.column("line").to_pylist(), nquads_lines(first_quads), strict=True)
    lines.sort(key=lambda pair: pair[0])
    return truncate("\n".join(text for _, text in lines)) if lines else None


def write_dead_letters(path: str | Path, rejected: Iterable[DecodeError]) -> None:
    """Append one JSON object per rejected event to a file; creates its directory."""
    if lines := dead_letters(rejected):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(lines)


def dead_letters(rejected: Iterable[DecodeError]) -> str:
    """One line of JSON per rejected event."""
    return "".join(json.dumps(error.to_json(), ensure_ascii=False) + "\n" for error in rejected)
