"""Describes the failure of a query in one sentence, from the stack traces of the JVM and of Python workers.

An error that Motet raised in a worker is passed on with its advice. Any other failure is described by its innermost
cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from motet.model.errors import EngineError, MotetError
from motet.spark.stream.checkpoint import unreadable_checkpoint

_MOTET_ERROR = re.compile(r"motet\.model\.errors\.(\w+): (.*(?:\n  (?!File |at ).*)?)")
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+)(?:: (.*))?$", re.MULTILINE)
_DAMAGE = re.compile(r"_STATE_STORE|STATE_STORE_|RocksDB|Checksum|EOFException|ZipException|the state snapshot")
_SHORTAGE = re.compile(r"No space left on device|Disk quota|OutOfMemory|MemoryError|Permission denied")
_CONCURRENT = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected")
_MAX_LENGTH = 600


def describe_failure(error: Exception, checkpoint: Path) -> MotetError:
    """The error to raise for what Spark raised while the query ran."""
    text = "\n".join(_texts(error))
    cause = _innermost_cause(text)
    causes = "\n".join([text.partition("\n")[0], *map(" ".join, _CAUSE.findall(text)), cause])
    if _CONCURRENT.search(causes):
        advice = "Let only one pipeline at a time use a checkpoint: stop the other one."
        return EngineError(f"another pipeline uses the checkpoint {checkpoint}", advice=advice)
    if (str(checkpoint) in causes or _DAMAGE.search(causes)) and not _SHORTAGE.search(causes):
        return unreadable_checkpoint(checkpoint, cause)
    if errors := _MOTET_ERROR.findall(text):
        message, _, advice = errors[-1][1].partition("\n")
        return EngineError(message, advice=advice.strip() or None)
    advice = "Start it again: it continues from its checkpoint. `motet doctor` checks this machine."
    return EngineError(f"the pipeline stopped: {cause}", advice=advice)


def innermost_cause(error: Exception) -> str:
    """The innermost cause of an exception, in one line."""
    return _innermost_cause("\n".join(_texts(error)))


def _texts(error: BaseException | None) -> Iterator[str]:
    """The messages and stack traces of an exception and its causes, the outermost first."""
    while error is not None:
        yield str(error)
        if stack := getattr(error, "_stackTrace", None):
            yield str(stack)
        error = getattr(error, "_cause", None) or error.__cause__


def _innermost_cause(text: str) -> str:
    """The innermost cause in one line: of Python if there is one, otherwise of the JVM."""
    _, _, traceback = text.rpartition(_TRACEBACK)
    python = traceback.partition("\n\tat ")[0] if _TRACEBACK in text else ""
    for pattern, source in ((_MOTET_ERROR, text), (_PYTHON, python), (_CAUSE, text)):
        if matches := pattern.findall(source):
            kind, message = matches[-1]
            return f"{kind}: {message}".partition("\n")[0][:_MAX_LENGTH].strip().rstrip(":")
    return text.strip().splitlines()[0][:_MAX_LENGTH] if text.strip() else "Spark gives no reason"
