"""Rejected events as JSON lines, so that they can be mended and published again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from motet.model.errors import DecodeError


def write_dead_letters(path: str | Path, rejected: Iterable[DecodeError]) -> None:
    """Append one JSON object per rejected event; makes the folder when there is none."""
    lines = [json.dumps(error.to_json(), ensure_ascii=False) + "\n" for error in rejected]
    if lines:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write("".join(lines))
