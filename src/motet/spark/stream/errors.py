"""Why did the query end? One sentence for people, out of the stacks of a JVM and of Python workers.

An error that Motet itself raised in a worker says what is wrong and what to do, and is told as it is. What is left is
told by its innermost cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from motet.model.errors import EngineError, MotetError
from motet.spark.stream.checkpoint import unreadable_checkpoint

_OWN = re.compile(r"motet\.model\.errors\.(\w+): (.*(?:\n  (?!File |at ).*)?)")
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)*([\w$]+)(?:: (.*))?$", re.MULTILINE)
_DAMAGE = re.compile(
    r"_STATE_STORE|STATE_STORE_|RocksDB|Checksum|EOFException|ZipException|the saved state of the detector"
)
_SHORTAGE = re.compile(r"No space left on device|Disk quota|OutOfMemory|MemoryError|Permission denied")
_CONCURRENT = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected")
_LONGEST = 600


def describe_failure(error: Exception, checkpoint: Path) -> MotetError:
    """What was raised while the query ran, in a few words."""
    whole = "\n".join(_texts(error))
    why = _reason(whole)
    causes = "\n".join([whole.partition("\n")[0], *map(" ".join, _CAUSE.findall(whole)), why])
    if _CONCURRENT.search(causes):
        advice = "Let only one pipeline at a time use a checkpoint: stop the other one."
        return EngineError(f"another pipeline uses the checkpoint {checkpoint}", advice=advice)
    if (str(checkpoint) in causes or _DAMAGE.search(causes)) and not _SHORTAGE.search(causes):
        return unreadable_checkpoint(checkpoint, why)
    if own := _OWN.findall(whole):
        message, _, advice = own[-1][1].partition("\n")
        return EngineError(message, advice=advice.strip() or None)
    advice = "Start it again: it goes on where it was. `motet doctor` shows what this machine has."
    return EngineError(f"the pipeline stopped: {why}", advice=advice)


def innermost_cause(error: Exception) -> str:
    """The innermost cause of what was raised, in one line."""
    return _reason("\n".join(_texts(error)))


def _texts(error: BaseException | None) -> Iterator[str]:
    """An exception's own words and those of its causes, the outermost first."""
    while error is not None:
        yield str(error)
        if stack := getattr(error, "_stackTrace", None):
            yield str(stack)
        error = getattr(error, "_cause", None) or error.__cause__


def _reason(text: str) -> str:
    """The innermost cause in one line: of Python if there is one, else of the JVM."""
    _, _, traceback = text.rpartition(_TRACEBACK)
    python = traceback.partition("\n\tat ")[0] if _TRACEBACK in text else ""
    for pattern, where in ((_OWN, text), (_PYTHON, python), (_CAUSE, text)):
        if found := pattern.findall(where):
            kind, words = found[-1]
            return f"{kind}: {words}".partition("\n")[0][:_LONGEST].strip().rstrip(":")
    return text.strip().splitlines()[0][:_LONGEST] if text.strip() else "Spark does not say why"
