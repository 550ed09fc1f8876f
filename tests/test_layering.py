"""The layers of docs/design.md: who may import whom, and which packages do no I/O."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "motet"

# From the ground up: a package may import those before it, never those after it.
LAYERS = (
    "model",
    "jit",
    "sparql",
    "xmlql",
    "codec",
    "ontology",
    "language",
    "plan",
    "lint",
    "engine",
    "reference",
    "provenance",
    "overlay",
    "lake",
    "query",
    "jobs",
    "connectors",
    "embedded",
    "spark",
    "federation",
    "service",
    "client",
    "testing",
    "demo",
    "fuzz",
    "reproduce",
    "cli",
)

PURE = (
    "model", "sparql", "xmlql", "language", "plan", "lint", "engine", "reference", "provenance", "overlay/protocol",
    "overlay/pubsub",
)  # fmt: skip
KEEPING_CODE = {"jit/compiled.py"}  # looks at the sources of what was compiled earlier, never at data
IMPURE = {
    "asyncio", "multiprocessing", "os", "pathlib", "pyspark", "random", "secrets", "shutil", "socket", "ssl",
    "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def packages() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")


def test_every_package_has_its_layer() -> None:
    """A new package is placed in the order before it is used."""
    assert set(packages()) <= set(LAYERS)


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_only_lower_layers(package: str) -> None:
    """A lower line of the layout may import a higher one, never the other way."""
    allowed = set(LAYERS[: LAYERS.index(package) + 1])
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for name in imports(path)
        if name.startswith("motet.") and name.split(".")[1] in LAYERS and name.split(".")[1] not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("package", [package for package in PURE if (SOURCE / package).exists()])
def test_pure_packages_do_no_io(package: str) -> None:
    """Matching, planning and protocols import no I/O, clock, randomness, Spark or asyncio."""
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for name in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("lower", "upper"),
    [("engine/match", "engine.detect"), ("engine/match", "engine.runtime"), ("engine/detect", "engine.runtime")],
)
def test_the_engine_matches_then_detects_then_emits(lower: str, upper: str) -> None:
    """Inside the engine the same holds: the processor uses detection, which uses matching."""
    for path in (SOURCE / lower).rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith(f"motet.{upper}")], path


def test_spark_uses_only_the_cloud_of_the_embedded_host() -> None:
    """What both hosts need is in `jobs` and `connectors`; Spark extends the cloud class and nothing else of it."""
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted((SOURCE / "spark").rglob("*.py"))
        for name in imports(path)
        if name.startswith("motet.embedded") and name not in ("motet.embedded.cloud", "motet.embedded.cloud.Cloud")
    ]
    assert wrong == []


def test_only_commands_and_the_fuzzer_print_or_parse_arguments() -> None:
    """A package below the command line can be used without it."""
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in imports(path)
        if path.relative_to(SOURCE).parts[0] not in ("cli", "fuzz") and name.split(".")[0] in ("argparse", "rich")
    ]
    assert wrong == []
