"""`motet submit`: run a command that uses Spark on a cluster."""

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

from motet.cli import arguments, output
from motet.model.errors import EngineError, UsageError, require_extra

if TYPE_CHECKING:
    from motet.spark.submit import Submission

HELP = "run a command that uses Spark on a cluster"
EXAMPLES = """\
  motet submit --master spark://head:7077 -- stream --lake /shared/building
  motet submit --master yarn --deploy-mode cluster --environment env.tar.gz -- stream --lake /shared/building
  motet submit --master yarn --dry-run -- replay --lake /shared/building --subscriptions fire.motet
"""
SPARK_COMMANDS = ("stream", "rescale", "replay", "verify", "diff", "run", "demo")
EMBEDDED_BY_DEFAULT = ("diff", "run")  # use Spark with --engine spark only


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--master",
        metavar="URL",
        required=True,
        help="the Spark master: local[*], spark://HOST:PORT, yarn or k8s://URL",
    )
    add("--deploy-mode", choices=["client", "cluster"], default="client", help="where the driver runs")
    add(
        "--environment",
        metavar="FILE",
        help="a Python environment packed by venv-pack or conda-pack; packed now if the file is missing",
    )
    add(
        "--executor-python",
        metavar="PATH",
        help="a Python with Motet's dependencies that is installed on every machine",
    )
    arguments.add_spark_settings(parser)
    add("--dry-run", action="store_true", help="print the equivalent call of spark-submit instead")
    add("command_line", nargs=argparse.REMAINDER, metavar="-- COMMAND", help=f"one of {', '.join(SPARK_COMMANDS)}")


def run(args: argparse.Namespace) -> int:
    submission = _submission(args)
    submission.check()
    if args.dry_run:
        return _print_call(submission)
    with tempfile.TemporaryDirectory(prefix="motet-submit-") as folder:
        if submission.deploy_mode == "cluster":
            return _run_in_cluster(submission, Path(folder))
        return _run_with_local_driver(submission, Path(folder))


def _submission(args: argparse.Namespace) -> Submission:
    from motet.spark.submit import Submission, pack_environment

    command = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not command or command[0] not in SPARK_COMMANDS:
        raise UsageError(
            f"`motet {command[0]}` does not use Spark" if command else "no command is given",
            advice=f"Give one of {', '.join(SPARK_COMMANDS)} after --.",
        )
    if command[0] in EMBEDDED_BY_DEFAULT and "spark" not in command:
        raise UsageError(f"`motet {command[0]}` runs on the embedded engine by default", advice="Add --engine spark.")
    if "embedded" in command or "--engine=embedded" in command:
        raise UsageError("the embedded engine does not run on a cluster", advice="Leave --engine embedded out.")
    environment = Path(args.environment) if args.environment else None
    if environment is not None and not args.dry_run:
        environment = pack_environment(environment)
    config = tuple(arguments.spark_settings(args).items())
    return Submission(args.master, tuple(command), args.deploy_mode, environment, args.executor_python, config)


def _print_call(submission: Submission) -> int:
    from motet.spark.submit import format_shell, stage_package

    folder = Path("motet-submit")
    try:
        folder.mkdir(exist_ok=True)
        stage_package(folder)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", advice="Run the command in another directory."
        ) from error
    print(format_shell(submission.command_line(folder)))
    return 0


def _run_in_cluster(submission: Submission, folder: Path) -> int:
    """Submit the driver to the cluster, too, with Spark's own program, and wait for it."""
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
        raise EngineError(f"spark-submit ended with status {status}", advice="See its output above.")
    return 0


def _run_with_local_driver(submission: Submission, folder: Path) -> int:
    """Run the command in this process, which is the driver; its session gets the settings."""
    from motet.cli.main import main
    from motet.spark.session import set_submitted
    from motet.spark.submit import stage_package

    settings = submission.settings(stage_package(folder))
    if submission.kind != "local" and submission.environment is None:
        output.warn(f"executors use {settings['spark.pyspark.python']}: it must exist on every machine")
    set_submitted(settings)
    with _environment_link(submission):
        return main(list(submission.command))


@contextmanager
def _environment_link(submission: Submission) -> Iterator[None]:
    """A link to this environment: Spark starts the driver's Python workers by the path of the executors'."""
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
