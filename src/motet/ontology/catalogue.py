"""Which file does an imported IRI stand for?

A catalogue is a JSON object from IRIs to paths, which are relative to the catalogue's own directory:
``{"http://www.w3.org/ns/sosa/": "vendor/sosa.ttl"}``.
"""

from __future__ import annotations

import json
from pathlib import Path

from motet.model.errors import UsageError


def read_catalogue(path: str | Path) -> dict[str, Path]:
    """The files by IRI."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the catalogue {path} cannot be read: {error.strerror}", advice="check its path") from error
    except ValueError as error:
        raise _malformed(path, str(error)) from error
    if not isinstance(content, dict):
        raise _malformed(path, f"it holds a {type(content).__name__}")
    wrong = next((name for name, target in content.items() if not isinstance(target, str)), None)
    if wrong is not None:
        raise _malformed(path, f"the path of {wrong!r} is not text")
    return {name: Path(path).parent / target for name, target in content.items()}


def _malformed(path: str | Path, reason: str) -> UsageError:
    return UsageError(
        f"the catalogue {path} is not a JSON object from IRIs to paths: {reason}",
        advice='write it like {"http://example.org/units": "units.ttl"}',
    )
