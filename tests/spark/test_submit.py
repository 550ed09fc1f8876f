"""Submissions: settings and files of a command on a cluster."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.model.errors import UsageError
from motet.spark.submit import Submission, format_shell, pack_environment, stage_package

PACKAGE = Path("/s/motet-package.zip")


def test_a_local_master_needs_nothing_shipped() -> None:
    """This machine has the package, Java and Python."""
    assert Submission("local[2]", ("stream",)).settings(PACKAGE) == {"spark.master": "local[2]"}


def test_a_cluster_gets_the_package_and_the_same_python() -> None:
    """The package is unpacked in the working directory of executors; given settings take precedence."""
    settings = Submission("spark://head:7077", (), config=(("spark.pyspark.python", "/p"),)).settings(PACKAGE)
    assert settings == {
        "spark.master": "spark://head:7077",
        "spark.submit.deployMode": "client",
        "spark.archives": "/s/motet-package.zip#motet-package",
        "spark.pyspark.python": "/p",
        "spark.executorEnv.PYTHONPATH": "motet-package",
    }
    assert Submission("yarn", ()).settings(PACKAGE)["spark.pyspark.python"] == sys.executable
    assert (
        Submission("yarn", (), executor_python="/opt/python").settings(PACKAGE)["spark.pyspark.python"] == "/opt/python"
    )


@pytest.mark.parametrize(
    ("master", "driver"), [("yarn", "spark.yarn.appMasterEnv"), ("k8s://https://api", "spark.kubernetes.driverEnv")]
)
def test_a_driver_in_the_cluster_gets_what_executors_get(master: str, driver: str) -> None:
    """With a packed environment, Python is the one in it."""
    settings = Submission(master, (), "cluster", environment=Path("/env.tar.gz")).settings(PACKAGE)
    assert settings["spark.archives"] == "/s/motet-package.zip#motet-package,/env.tar.gz#motet-environment"
    assert settings["spark.pyspark.python"] == "./motet-environment/bin/python"
    assert settings[f"{driver}.PYTHONPATH"] == settings["spark.executorEnv.PYTHONPATH"] == "motet-package"


def test_the_line_is_a_call_of_spark_submit() -> None:
    """What `--dry-run` prints: options first, then the program and the command."""
    line = Submission("yarn", ("stream", "--lake", "/a b"), "cluster", executor_python="/p").command_line(Path("s"))
    said = format_shell(line).splitlines()
    assert said[:3] == ["spark-submit \\", "  --master yarn \\", "  --deploy-mode cluster \\"]
    assert "  --conf 'spark.archives=s/motet-package.zip#motet-package' \\" in said
    assert said[-1] == "  s/motet_main.py stream --lake '/a b'"


@pytest.mark.parametrize(
    ("submission", "said"),
    [
        (Submission("mesos://host", ()), "not a master of Spark"),
        (Submission("sc://host:15002", ()), "Spark Connect server"),
        (Submission("spark://head:7077", (), "cluster"), "no Python driver in a standalone cluster"),
        (Submission("yarn", (), environment=Path("e"), executor_python="/p"), "executors have one Python"),
    ],
)
def test_what_cannot_work_is_refused(submission: Submission, said: str) -> None:
    """Before anything is packed or started."""
    with pytest.raises(UsageError, match=said):
        submission.check()


def test_the_package_runs_from_its_archive(tmp_path: Path) -> None:
    """Unpacked as executors do it, it has kernels and grammars, and it is the one that is imported."""
    folder = tmp_path / "motet-package"
    with zipfile.ZipFile(stage_package(tmp_path)) as archive:
        archive.extractall(folder)
    program = (
        "import motet; from motet.language.parse import parse; from motet.engine.runtime.processor import Processor; "
        "print(motet.__file__, len(parse('SUBSCRIPTION s EVENT a WHEN a')))"
    )
    environment = {"PYTHONPATH": "motet-package"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([str(folder / "motet" / "__init__.py"), "1"], "")


def test_an_environment_that_is_missing_and_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    """One that is there is taken as it is."""
    (tmp_path / "there.tar.gz").touch()
    assert pack_environment(tmp_path / "there.tar.gz") == tmp_path / "there.tar.gz"
    with pytest.raises(UsageError, match="-pack is not installed"):
        pack_environment(tmp_path / "missing.tar.gz")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--"], "no command is given"),
        (["--", "lint", "x.motet"], "`motet lint` does not use Spark"),
        (["--", "run", "--events", "x.nq"], "runs on the embedded engine by default"),
        (["--", "stream", "--lake", "x", "--engine", "embedded"], "the embedded engine does not run on a cluster"),
    ],
)
def test_only_commands_on_spark_are_submitted(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and the others are named."""
    assert main(["submit", "--master", "yarn", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_prints_the_call_and_leaves_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed can be run as it is."""
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "--master", "yarn", "--dry-run", "--", "stream", "--lake", "/shared/b"]) == 0
    assert capsys.readouterr().out.endswith("motet-submit/motet_main.py stream --lake /shared/b\n")
    assert sorted(path.name for path in Path("motet-submit").iterdir()) == ["motet-package.zip", "motet_main.py"]
