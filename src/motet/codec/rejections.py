"""What is said about an event that cannot be taken, and the lines that let someone mend it.

A ``Problem`` is found by some stage; ``rejection`` turns an event's problems into the one DecodeError that is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from motet.model.errors import DecodeError

CONTENT_BYTES = 64 * 1024  # of a rejected event that are kept


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an event, or with input that belongs to no event."""

    reason: str
    advice: str | None = None
    line: int | None = None
    column: int | None = None
    content: str | None = None
    event: str | None = None  # only for what is reported apart from its event's own batch


def rejection(
    source: str, event: str | None, problems: Sequence[Problem], quads: pa.RecordBatch | None = None
) -> DecodeError:
    """The error for one event: its first problem, how many more there are, and its lines.

    >>> str(rejection("a.nq", "urn:e:1", [Problem("two times", line=3)]))
    'a.nq, line 3: event <urn:e:1>: two times'
    """
    first = problems[0]
    more = f" (and {len(problems) - 1} more in the same event)" if len(problems) > 1 else ""
    line = first.line if first.line is not None else _first_line(quads)
    content = _content(problems, quads)
    return DecodeError(
        first.reason + more,
        source=source,
        line=line,
        column=first.column,
        event=event,
        content=content,
        advice=first.advice,
    )


def nquads_lines(quads: pa.RecordBatch) -> list[str]:
    """Quads as N-Quads lines without newlines; a null graph is left out."""
    columns = (quads.column(name).to_pylist() for name in ("subject", "predicate", "object", "graph"))
    return [" ".join(term for term in (*terms, ".") if term is not None) for terms in zip(*columns, strict=True)]


def cut(text: str) -> str:
    """Text as it is kept in a rejection: at most ``CONTENT_BYTES``, with a note where it was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= CONTENT_BYTES:
        return raw.decode("utf-8", "replace")
    kept = raw[:CONTENT_BYTES].decode("utf-8", "replace")
    return f"{kept}\n# cut here: {len(raw) - CONTENT_BYTES} more bytes"


def _first_line(quads: pa.RecordBatch | None) -> int | None:
    return quads.column("line")[0].as_py() if quads is not None and quads.num_rows else None


def _content(problems: Sequence[Problem], quads: pa.RecordBatch | None) -> str | None:
    numbered = [(problem.line or 0, problem.content) for problem in problems if problem.content is not None]
    if quads is not None:
        shown = quads.slice(0, CONTENT_BYTES // 8)  # no quad has fewer bytes than that
        numbered += zip(shown.column("line").to_pylist(), nquads_lines(shown), strict=True)
    numbered.sort(key=lambda pair: pair[0])
    return cut("\n".join(text for _, text in numbered)) if numbered else None
