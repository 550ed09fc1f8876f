"""Submits commands to a cluster: the settings, files and Python for each kind of master.

The package is shipped as an archive that executors unpack, because grammars and compiled kernels are files of it. Its
requirements (PyArrow, Numba, ...) are shipped as a packed environment, or are installed on the machines. Nothing runs
here.
"""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motet.model.errors import EngineError, UsageError

PACKAGE = "motet-package"  # names of the archives in the working directory of executors
ENVIRONMENT = "motet-environment"
MAIN = "motet_main.py"

_MAIN = "import sys\n\nfrom motet.cli.main import main\n\nsys.exit(main())\n"
_KINDS = {"local": "local", "spark://": "standalone", "yarn": "yarn", "k8s://": "kubernetes", "sc://": "connect"}


@dataclass(frozen=True)
class Submission:
    """A command, and the cluster and Python it runs with."""

    master: str
    command: tuple[str, ...]
    deploy_mode: str = "client"
    environment: Path | None = None  # an archive
    executor_python: str | None = None  # installed on all machines
    config: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the master.

        >>> Submission("spark://host:7077", ()).kind
        'standalone'
        """
        kinds = [kind for prefix, kind in _KINDS.items() if self.master.startswith(prefix)]
        if not kinds:
            raise UsageError(
                f"{self.master!r} is not a master of Spark",
                advice="Give local[*], spark://HOST:7077, yarn, k8s://https://HOST:6443 or sc://HOST:15002.",
            )
        return kinds[0]

    def check(self) -> None:
        """Refuse combinations that cannot work."""
        if self.kind == "connect":
            raise UsageError(
                "`motet submit` cannot ship the package to a Spark Connect server",
                advice="Install Motet in the server's Python, then give the command itself --master sc://HOST:15002.",
            )
        if self.deploy_mode == "cluster" and self.kind in ("local", "standalone"):
            raise UsageError(
                f"Spark runs no Python driver in a {self.kind} cluster", advice="Leave --deploy-mode out: client."
            )
        if self.environment is not None and self.executor_python is not None:
            raise UsageError("executors have one Python", advice="Give --environment or --executor-python, not both.")

    def settings(self, package: Path) -> dict[str, str]:
        """The settings of Spark; ``package`` is the archive of the package."""
        settings = {"spark.master": self.master}
        if self.kind != "local":
            settings |= self._cluster_settings(package)
        return settings | dict(self.config)

    def _cluster_settings(self, package: Path) -> dict[str, str]:
        archives = [f"{package}#{PACKAGE}"]
        python = self.executor_python or sys.executable
        if self.environment is not None:
            archives.append(f"{self.environment}#{ENVIRONMENT}")
            python = f"./{ENVIRONMENT}/bin/python"
        return {
            "spark.submit.deployMode": self.deploy_mode,
            "spark.archives": ",".join(archives),
            "spark.pyspark.python": python,
            **self._environment_settings("PYTHONPATH", PACKAGE),
        }

    def _environment_settings(self, name: str, value: str) -> dict[str, str]:
        """A variable of the executors' environment; also of the driver's, if it runs in the cluster."""
        prefixes = ["spark.executorEnv"]
        if self.deploy_mode == "cluster":
            prefixes += ["spark.yarn.appMasterEnv"] if self.kind == "yarn" else ["spark.kubernetes.driverEnv"]
        return {f"{prefix}.{name}": value for prefix in prefixes}

    def command_line(self, folder: Path) -> list[str]:
        """The equivalent call of `spark-submit`; ``folder`` has the files of `stage_package`."""
        settings = self.settings(folder / f"{PACKAGE}.zip")
        options = ["--master", settings.pop("spark.master")]
        options += ["--deploy-mode", settings.pop("spark.submit.deployMode", "client")]
        for name, value in sorted(settings.items()):
            options += ["--conf", f"{name}={value}"]
        return ["spark-submit", *options, str(folder / MAIN), *self.command]


def stage_package(folder: Path) -> Path:
    """Write the archive of the package, which is returned, and a main program into a folder."""
    source = Path(__file__).parents[1]
    archive = folder / f"{PACKAGE}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for path in sorted(source.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":  # with the compiled kernels
                zip_file.write(path, Path("motet") / path.relative_to(source))
    (folder / MAIN).write_text(_MAIN)
    return archive


def pack_environment(archive: Path) -> Path:
    """The archive of an environment; if it does not exist, the environment of this program is packed."""
    if archive.exists():
        return archive.absolute()
    tool = "conda_pack" if Path(sys.prefix, "conda-meta").exists() else "venv_pack"
    if importlib.util.find_spec(tool) is None:
        raise UsageError(
            f"{archive} does not exist, and {tool.replace('_', '-')} is not installed to make it",
            advice=f"run `python -m pip install {tool.replace('_', '-')}`, or give --executor-python PATH",
        )
    packed = subprocess.run(
        [sys.executable, "-m", tool, "--prefix", sys.prefix, "--output", str(archive)], capture_output=True, check=False
    )
    if packed.returncode:
        messages = packed.stderr.decode(errors="replace").strip().splitlines() or ["no error message"]
        raise EngineError(
            f"{sys.prefix} could not be packed: {messages[-1]}", advice="Give --executor-python PATH instead."
        )
    return archive.absolute()


def format_shell(call: Sequence[str]) -> str:
    """A call for a shell, one option per line.

    >>> print(format_shell(["spark-submit", "--master", "yarn", "main.py", "a b"]))
    spark-submit \\
      --master yarn \\
      main.py 'a b'
    """
    lines: list[list[str]] = [[call[0]]]
    rest = list(call[1:])
    while rest and rest[0].startswith("--"):
        lines.append([rest.pop(0), rest.pop(0)])
    return " \\\n  ".join(shlex.join(line) for line in [*lines, rest] if line)
