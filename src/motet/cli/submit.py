"""`motet submit`: a command that uses Spark, on another master."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.stream import settings_of
from motet.model.errors import EngineError, UsageError
from motet.model.extras import require_extra

if TYPE_CHECKING:
    from motet.spark.submit import Submission

HELP = "run a command that uses Spark on a cluster"
EXAMPLES = """\
  motet submit --master spark://head:7077 -- stream --lake /shared/building
  motet submit --master yarn --deploy-mode cluster --environment env.tar.gz -- stream --lake /shared/building
  motet submit --master yarn --dry-run -- replay --lake /shared/building --subscriptions fire.motet
"""
ON_SPARK = ("stream", "replay", "verify", "diff", "run", "demo")
WHEN_ASKED = ("diff", "run")  # otherwise in one process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", required=True, help="local[*], spark://, yarn or k8s://")
    parser.add_argument("--deploy-mode", choices=["client", "cluster"], default="client", help="where the driver runs")
    parser.add_argument(
        "--environment", metavar="FILE", help="a Python environment made by venv-pack or conda-pack; made if missing"
    )
    parser.add_argument("--executor-python", metavar="PATH", help="a Python with Motet's needs, there on all machines")
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting for Spark")
    parser.add_argument("--dry-run", action="store_true", help="print the call of spark-submit that does the same")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help=f"one of {', '.join(ON_SPARK)}")


def run(args: argparse.Namespace) -> int:
    submission = _submission(args)
    submission.check()
    if args.dry_run:
        return _print_line(submission)
    with tempfile.TemporaryDirectory(prefix="motet-submit-") as folder:
        if submission.deploy_mode == "cluster":
            return _in_cluster(submission, Path(folder))
        return _from_here(submission, Path(folder))


def _submission(args: argparse.Namespace) -> Submission:
    from motet.spark.submit import Submission, pack_environment

    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words or words[0] not in ON_SPARK:
        raise UsageError(
            f"{words[0]!r} does not use Spark" if words else "there is no command to run",
            advice=f"Give one of {', '.join(ON_SPARK)} behind --.",
        )
    if words[0] in WHEN_ASKED and "spark" not in words:
        raise UsageError(f"`motet {words[0]}` uses Spark only when it is asked to", advice="Add --engine spark.")
    environment = Path(args.environment) if args.environment else None
    if environment is not None and not args.dry_run:
        environment = pack_environment(environment)
    config = tuple(settings_of(args.conf).items())
    return Submission(args.master, tuple(words), args.deploy_mode, environment, args.executor_python, config)


def _print_line(submission: Submission) -> int:
    from motet.spark.submit import format_shell, stage_package

    folder = Path("motet-submit")
    try:
        folder.mkdir(exist_ok=True)
        stage_package(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", advice="Call it from elsewhere.") from error
    print(format_shell(submission.command_line(folder)))
    return 0


def _in_cluster(submission: Submission, folder: Path) -> int:
    """The driver runs in the cluster too: Spark's own program takes it there and waits."""
    require_extra("spark", "`motet submit`")
    import pyspark

    from motet.spark.java import find_java
    from motet.spark.submit import stage_package

    stage_package(folder)
    _, *options = submission.command_line(folder)
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = os.environ | {"JAVA_HOME": str(find_java().home)}
    status = subprocess.run([program, *options], env=environment, check=False).returncode
    if status:
        raise EngineError(f"spark-submit ended with status {status}", advice="Its output above says why.")
    return 0


def _from_here(submission: Submission, folder: Path) -> int:
    """The driver is this process: the command runs in it, and its session gets the settings."""
    from motet.cli.main import main
    from motet.spark.session import set_submitted
    from motet.spark.submit import stage_package

    settings = submission.settings(stage_package(folder))
    if submission.kind != "local" and submission.environment is None:
        output.complain(f"executors use {settings['spark.pyspark.python']}: it must be there on every machine")
    set_submitted(settings)
    with _own_environment(submission):
        return main(list(submission.command))


@contextmanager
def _own_environment(submission: Submission) -> Iterator[None]:
    """Spark starts the driver's Python workers by the executors' path: a link makes it lead to this environment."""
    from motet.spark.submit import ENVIRONMENT

    link = Path(ENVIRONMENT)
    if submission.environment is None or link.exists():
        yield
        return
    link.symlink_to(sys.prefix)
    try:
        yield
    finally:
        link.unlink()
