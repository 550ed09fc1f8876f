"""How does a command reach a cluster? Which settings, files and Python go along, for each kind of master.

The package travels as an archive that executors unpack, since its grammars are read from files, and what Numba has
compiled from its kernels is kept beside them. What it needs besides (PyArrow, Numba, ...) travels as a packed
environment, or is on the machines already. Nothing runs here.
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

PACKAGE = "motet-package"  # the archives' names where executors work
ENVIRONMENT = "motet-environment"
MAIN = "motet_main.py"

_MAIN = "import sys\n\nfrom motet.cli.main import main\n\nsys.exit(main())\n"
_KINDS = {"local": "local", "spark://": "standalone", "yarn": "yarn", "k8s://": "kubernetes", "sc://": "connect"}


@dataclass(frozen=True)
class Submission:
    """A command and where it is to run."""

    master: str
    command: tuple[str, ...]
    deploy_mode: str = "client"
    environment: Path | None = None  # a packed one
    executor_python: str | None = None  # one that is there already
    config: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """Of the master.

        >>> Submission("spark://host:7077", ()).kind
        'standalone'
        """
        found = [kind for begin, kind in _KINDS.items() if self.master.startswith(begin)]
        if not found:
            raise UsageError(
                f"{self.master!r} is no master that Spark knows",
                advice="Give local[*], spark://HOST:7077, yarn, k8s://https://HOST:6443 or sc://HOST:15002.",
            )
        return found[0]

    def check(self) -> None:
        """Refuse what cannot work."""
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
        """What Spark is told; ``package`` is the archive of the package."""
        found = {"spark.master": self.master}
        if self.kind != "local":
            found |= self._shipped(package)
        return found | dict(self.config)

    def _shipped(self, package: Path) -> dict[str, str]:
        archives = [f"{package}#{PACKAGE}"]
        python = self.executor_python or sys.executable
        if self.environment is not None:
            archives.append(f"{self.environment}#{ENVIRONMENT}")
            python = f"./{ENVIRONMENT}/bin/python"
        return {
            "spark.submit.deployMode": self.deploy_mode,
            "spark.archives": ",".join(archives),
            "spark.pyspark.python": python,
            **self._everywhere("PYTHONPATH", PACKAGE),
        }

    def _everywhere(self, name: str, value: str) -> dict[str, str]:
        """A variable of the executors' environment; of the driver's, too, when the cluster runs that."""
        prefixes = ["spark.executorEnv"]
        if self.deploy_mode == "cluster":
            prefixes += ["spark.yarn.appMasterEnv"] if self.kind == "yarn" else ["spark.kubernetes.driverEnv"]
        return {f"{prefix}.{name}": value for prefix in prefixes}

    def command_line(self, folder: Path) -> list[str]:
        """The call of Spark's own `spark-submit` that does the same; ``folder`` holds what `staged` puts there."""
        settings = self.settings(folder / f"{PACKAGE}.zip")
        options = ["--master", settings.pop("spark.master")]
        options += ["--deploy-mode", settings.pop("spark.submit.deployMode", "client")]
        for name, value in sorted(settings.items()):
            options += ["--conf", f"{name}={value}"]
        return ["spark-submit", *options, str(folder / MAIN), *self.command]


def stage_package(folder: Path) -> Path:
    """Put what a submission ships into a folder: the archive of the package, which is returned, and a main program."""
    source = Path(__file__).parents[1]
    archive = folder / f"{PACKAGE}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(source.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":  # what Numba has compiled goes along
                packed.write(path, Path("motet") / path.relative_to(source))
    (folder / MAIN).write_text(_MAIN)
    return archive


def pack_environment(archive: Path) -> Path:
    """The archive of an environment; if there is none, this program's own is packed into it."""
    if archive.exists():
        return archive.absolute()
    tool = "conda_pack" if Path(sys.prefix, "conda-meta").exists() else "venv_pack"
    if importlib.util.find_spec(tool) is None:
        raise UsageError(
            f"{archive} does not exist, and {tool.replace('_', '-')} is not installed to make it",
            advice=f"run `python -m pip install {tool.replace('_', '-')}`, or give --executor-python PATH",
        )
    done = subprocess.run(
        [sys.executable, "-m", tool, "--prefix", sys.prefix, "--output", str(archive)], capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it does not say why"]
        raise EngineError(
            f"{sys.prefix} could not be packed: {said[-1]}", advice="Give --executor-python PATH instead."
        )
    return archive.absolute()


def format_shell(line: Sequence[str]) -> str:
    """A call as one types it, an option a line.

    >>> print(shell(["spark-submit", "--master", "yarn", "main.py", "a b"]))
    spark-submit \\
      --master yarn \\
      main.py 'a b'
    """
    parts: list[list[str]] = [[line[0]]]
    rest = list(line[1:])
    while rest and rest[0].startswith("--"):
        parts.append([rest.pop(0), rest.pop(0)])
    return " \\\n  ".join(shlex.join(part) for part in [*parts, rest] if part)
