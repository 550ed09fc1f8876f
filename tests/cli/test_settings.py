"""`motet settings`: show and change the settings of a lake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.lake import Lake
from motet.model.settings import TIME_PROPERTIES, Settings


def test_settings_are_shown_as_users_write_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Durations have units, None is a word, and the text can be given back."""
    Lake.open(tmp_path, lateness=None, heartbeat=None)
    assert main(["settings", "--lake", str(tmp_path)]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == [["lateness", "unlimited"], ["ahead", "1 d"], ["heartbeat", "never"]]
    assert lines[4] == ["entailment", "unset"]


def test_settings_are_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is named changes; the answer shows all of them."""
    Lake.open(tmp_path)
    options = ["--lateness", "10 s", "--ahead", "unlimited", "--heartbeat", "never", "--entailment", "rdfs"]
    assert main(["settings", "--lake", str(tmp_path), "--json", *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["lateness"], shown["ahead"], shown["heartbeat"]) == ("10 s", "unlimited", "never")
    assert main(["settings", "--lake", str(tmp_path), "--heartbeat", "default", "--entailment", "unset"]) == 0
    assert Lake.open(tmp_path).snapshot().settings == Settings(lateness=10_000_000, ahead=None)


def test_time_properties(tmp_path: Path) -> None:
    """A pair in quotes is start and end; 'default' stands for the default ones."""
    Lake.open(tmp_path)
    assert (
        main(["settings", "--lake", str(tmp_path), "--time-properties", "urn:from urn:to", "<urn:at>", "default"]) == 0
    )
    expected = (("urn:from", "urn:to"), ("urn:at",), *TIME_PROPERTIES)
    assert Lake.open(tmp_path).snapshot().settings.time_properties == expected


def test_mappings_of_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The texts of the files are stored; a wrong one is refused, and 'none' removes all."""
    (tmp_path / "a.yaml").write_text(text := "event: {root: a}\nproperties: {b: urn:b}\n")
    (tmp_path / "bad.yaml").write_text("event: {root: a}\nproperties: {'b//c//d': urn:b}\n")
    Lake.open(lake := tmp_path / "lake")
    options = ["settings", "--lake", str(lake), "--json", "--map"]
    assert main([*options, str(tmp_path / "a.yaml"), "generic"]) == 0
    assert json.loads(capsys.readouterr().out)["mappings"] == [text, "generic"]
    assert main([*options, str(tmp_path / "bad.yaml")]) == 2
    assert "'b//c//d' is no path" in capsys.readouterr().err
    assert Lake.open(lake).snapshot().settings.mappings == (text, "generic")
    assert main([*options, "none"]) == 0
    assert Lake.open(lake).snapshot().settings == Settings()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lateness", "soon"], "'soon' is not a duration"),
        (["--heartbeat", "unlimited"], "'unlimited' is not a duration"),
        (["--time-properties", "seenAt"], "'seenAt' is not an IRI"),
        (["--time-properties", "urn:a urn:b urn:c"], "no list of time properties"),
    ],
)
def test_wrong_values(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    """A wrong value is refused and changes nothing."""
    Lake.open(tmp_path)
    assert main(["settings", "--lake", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
    assert Lake.open(tmp_path).snapshot().next_offset == 1


def test_a_missing_lake_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--lake", str(tmp_path / "none"), "--lateness", "1 s"]) == 1
    assert "is not a lake" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
