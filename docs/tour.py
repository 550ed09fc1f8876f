"""Writes docs/tour.md: each source file with the first paragraph of its docstring.

Run: python docs/tour.py     (`make docs` does; a test compares)
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "motet"
PACKAGES = (
    "model", "jit", "sparql", "codec", "ontology", "language", "plan", "lint", "engine", "reference", "provenance",
    "overlay", "lake", "jobs", "connectors", "embedded", "spark", "demo", "fuzz", "cli",
)  # fmt: skip
HEAD = """\
# A tour of the files

The packages in the order of their layers: a package imports those above it, never those below. Made by
`python docs/tour.py` from the docstrings of the modules.
"""


def tour() -> str:
    return (
        "\n".join(
            [HEAD, *(line for package in PACKAGES if (SOURCE / package).exists() for line in section(SOURCE / package))]
        )
        + "\n"
    )


def section(package: Path) -> Iterator[str]:
    yield f"## {package.name}\n\n{first_sentence(package / '__init__.py')}\n\n| file | job |\n|---|---|"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name != "__init__.py":
            yield f"| `{name.removesuffix('/__init__.py')}` | {first_sentence(path)} |"
    yield ""


def first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    (ROOT / "docs" / "tour.md").write_text(tour(), encoding="utf-8")
