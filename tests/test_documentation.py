"""What the documentation says is so."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house import SOURCE, class_names, files, tree

import motet
from motet.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
WRITTEN = [
    page for page in sorted(ROOT.glob("docs/**/*.md")) if page.name != "tour.md" and "decisions" not in page.parts
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *WRITTEN]


def test_the_tour_is_up_to_date() -> None:
    """docs/tour.md is what `python docs/tour.py` writes."""
    written = runpy.run_path(str(ROOT / "docs" / "tour.py"))["tour"]()
    assert (ROOT / "docs" / "tour.md").read_text(encoding="utf-8") == written


def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    """Every name that docs/api.md documents exists, and every link has a target; `make docs` does the same."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", str(ROOT / "docs"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_readme_lists_every_command() -> None:
    """A command that is not in the README does not exist for a newcomer."""
    listed = re.findall(r"^\| `motet ([a-z-]+)` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_the_command_reference_has_every_command() -> None:
    """The page is made from the parsers; each command has a section with its usage and its examples."""
    reference = runpy.run_path(str(ROOT / "docs" / "command_reference.py"))["command_reference"]()
    assert re.findall(r"^## motet (.*)$", reference, re.MULTILINE) == list(COMMANDS)
    assert "| `--lake DIR` |" in reference


def test_the_api_reference_has_every_public_name() -> None:
    """What `motet` exports is documented; the errors are, as a whole module."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r":: motet\.(\w+)$", page, re.MULTILINE))
    errors = set(class_names(tree(SOURCE / "model" / "errors.py")))
    assert set(motet.__all__) - listed - errors == {"__version__"}


def test_the_readme_python_runs(tmp_path: Path) -> None:
    """The first program a newcomer copies prints what the text says, also when it is run again."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for _ in range(2):
        printed: list[str] = []
        scope = {"print": lambda *values, printed=printed: printed.append(" ".join(map(str, values)))}
        exec(compile(program.replace("my-lake", str(tmp_path)), "README.md", "exec"), scope)  # noqa: S102
        assert [f"This prints `{line}`" in text for line in printed] == [True]


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python blocks, one after the other, print what the text says."""
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    scope: dict[str, object] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text("utf-8"), re.DOTALL):
        exec(compile(block, "tutorial.md", "exec"), scope)  # noqa: S102
    assert printed == [
        "1 event accepted",
        "hot {'celsius': '35', 'room': 'lab'}",
        "fire {'room': 'lab'}",
        "fire {'room': 'lab'}",
        "fire {'room': 'attic'}",
        "real-fire {'room': 'lab'}",
        "fire {'room': 'cellar'}",
        "real-fire {'room': 'cellar'}",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_pages_mention_exist(page: Path) -> None:
    """A path to a file or folder in code letters leads somewhere: from the root, from src/motet, or from the page."""
    mentioned = set(re.findall(r"`([\w./-]+(?:\.py|\.md|\.toml|\.ipynb|/))`", page.read_text(encoding="utf-8")))
    roots = (ROOT, ROOT / "src" / "motet", page.parent)
    assert sorted(path for path in mentioned if not any((root / path).exists() for root in roots)) == []


def test_classes_that_the_design_mentions_exist() -> None:
    """A capitalised name in code letters, alone or with a method, is a class of the source."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"`([A-Z][a-z]\w*)(?:\.\w+(?:\(\w*\))?)?`", text))
    defined = {name for path in files() for name in class_names(tree(path))}
    assert mentioned - defined == set()


def test_no_machine_is_mentioned() -> None:
    """No path of a machine and no address of a package index is in the project's own text."""
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/\w|index-url\s*=?\s*http", re.IGNORECASE)
    texts = [path for path in ROOT.glob("**/*") if path.suffix in (".md", ".py", ".toml", ".txt", ".ttl")]
    own = [path for path in texts if not set(path.relative_to(ROOT).parts) & {".venv", "build", ".cache", "motet-demo"}]
    assert [
        str(path)
        for path in own
        if pattern.search(path.read_text(encoding="utf-8")) and path.name != Path(__file__).name
    ] == []
