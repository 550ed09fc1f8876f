"""The Python examples run and print the expected output."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "prints"),
    [
        ("live_cloud", "hot-room: http://example.org/cellar has 40 degrees"),
        ("read_the_lake", "1-north"),
        ("real_fire", "real-fire: lab\ncall-the-brigade: lab\n"),
    ],
)
def test_an_example_runs(name: str, prints: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An example runs without errors and prints the expected lines."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert prints in capsys.readouterr().out
