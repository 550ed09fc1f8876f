"""The ontology examples, run with the commands of their READMEs."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from motet.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "video": {"all-videos": "1 2 3", "films": "1 2", "english-action": "1"},
    "home-network": {"at-home": "1 2", "anywhere": "3", "to-take-along": "1"},
    "service-registry": {"payment": "1 2", "certified-payment": "1", "tested": "2"},
}


def commands(example: str) -> list[list[str]]:
    """The indented lines of a README that call motet."""
    text = (EXAMPLES / example / "README.md").read_text()
    return [line.split()[1:] for line in re.findall(r"^ {4}(motet .*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize("example", EXPECTED)
def test_an_example_gives_the_notifications_of_its_readme(
    example: str, engine: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each engine gives exactly the notifications that the README of the example names."""
    monkeypatch.chdir(EXAMPLES / example)
    assert main([*commands(example)[0], "--engine", engine]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    notifications = Counter((line["subscription"], line["events"][0].rpartition("/")[2]) for line in lines)
    assert notifications == Counter(
        (name, event) for name, events in EXPECTED[example].items() for event in events.split()
    )


def test_a_description_becomes_a_subscription(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What `motet ontology topics` prints is a subscription file that matches the described film."""
    monkeypatch.chdir(EXAMPLES / "video")
    run, topics = commands("video")
    assert main(topics) == 0
    (tmp_path / "wanted.motet").write_bytes(capfdbinary.readouterr().out)
    assert main([str(tmp_path / "wanted.motet") if word == "video.motet" else word for word in run]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["events"] for line in lines] == [["http://example.org/published/1"]]
