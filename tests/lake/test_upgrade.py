"""The upgrade of a lake of format 1: `format1.zip` was written by the last version of that format.

It has subscriptions (one with UNLESS, one with NO), ticks, a late and a retracted event, a compacted segment, inline
records of both forms, a notification table, cursors and state snapshots.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders import FUTURE, ManualClock, event_nquads

from motet.cli.main import main
from motet.embedded.cloud import Cloud
from motet.jobs.verify import verify_embedded
from motet.lake import Lake
from motet.lake import upgrade as upgrading
from motet.lake.store import Store
from motet.lake.upgrade import upgrade
from motet.model.batches import RECORDS
from motet.model.errors import CorruptLakeError, LakeError
from motet.model.records import SettingsChange
from motet.model.settings import Settings

RECORD_COUNT = 62
HEAD = "1821825c05405957250fb2b7c8028e8256e4a69528e5e4ae0d8d9d345854c374"  # as the last version of format 1 printed it
KEPT = Settings(lateness=10_000_000, ahead=None, heartbeat=None)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("format1.zip")) as archive:
        archive.extractall(tmp_path / "lake")
    return tmp_path / "lake"


def table(lake: Lake) -> pa.Table:
    return pa.Table.from_batches(lake.snapshot().records(), RECORDS)


def test_an_old_lake_says_what_to_do(old: Path) -> None:
    """ "Opening an old lake says so", and changes nothing."""
    before = sorted(path.name for path in old.rglob("*"))
    with pytest.raises(LakeError, match=r"format 1, older than 2\n.*motet upgrade"):
        Lake.open(old)
    assert sorted(path.name for path in old.rglob("*")) == before


def test_an_upgrade_keeps_records_and_their_meaning(old: Path) -> None:
    """Offsets, frontiers, late flags and contents stay; the notification table agrees before and after."""
    assert upgrade(old) == KEPT
    lake = Lake.open(old)
    snapshot = lake.snapshot()
    assert (snapshot.next_offset, snapshot.settings, snapshot.is_live) == (RECORD_COUNT + 1, KEPT, False)
    assert [change.offset for change in snapshot.control_records(SettingsChange)] == [RECORD_COUNT]
    assert lake.check() == []
    records = table(lake)
    assert (sum(records["late"].to_pylist()), sum(records["stamped"].to_pylist())) == (1, 0)
    assert verify_embedded(snapshot).head == HEAD
    lake.compact()
    assert (lake.check(), table(lake)) == ([], records)
    assert verify_embedded(lake.snapshot()).head == HEAD


def test_an_upgraded_lake_goes_on(old: Path) -> None:
    """Contents of format 1 are compared by their triples; new events and subscriptions follow, and verify agrees."""
    upgrade(old)
    lake = Lake.open(old, clock=ManualClock(FUTURE))
    known = event_nquads("urn:e:52", ("<urn:p>", '"other"'))
    records = table(lake).filter(pa.compute.equal(table(lake)["id"], "urn:e:52"))
    assert (
        lake.append(records.select(["id", "start", "end", "triples"]).append_column("line", pa.array([1]))).repeated
        == 1
    )
    received: list[object] = []
    with Cloud(lake) as cloud:
        with pytest.raises(Exception, match="accepted before with other content"):
            cloud.publish(known)
        cloud.subscribe("SUBSCRIPTION later EVENT a WHEN a SIGNAL", received.append)
        cloud.publish(event_nquads("urn:e:new", ("<urn:p>", '"1"')))
    assert len(received) == 1
    assert verify_embedded(lake.snapshot()).difference is None
    assert lake.check() == []


def test_an_upgrade_twice_changes_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says that there is nothing to do; a lake keeps its identity."""
    assert main(["upgrade", "--lake", str(old), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["upgraded"], shown["ahead"], shown["heartbeat"]) == (True, "unlimited", "never")
    lake = Lake.open(old)
    identity, version = lake.id, lake.snapshot().version
    assert main(["upgrade", "--lake", str(old)]) == 0
    assert "nothing was changed" in capsys.readouterr().err
    assert (Lake.open(old).id, Lake.open(old).snapshot().version) == (identity, version)


def test_a_kill_before_the_commit_leaves_the_old_lake(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before the commit."""
    monkeypatch.setattr(upgrading, "Manifest", _die)
    with pytest.raises(KeyboardInterrupt):
        upgrade(old)
    monkeypatch.undo()
    with pytest.raises(LakeError, match="motet upgrade"):
        Lake.open(old)
    assert upgrade(old) == KEPT


@pytest.mark.parametrize("continues", [upgrade, Lake.open])
def test_a_kill_after_the_commit_leaves_the_new_lake(
    old: Path, monkeypatch: pytest.MonkeyPatch, continues: object
) -> None:
    """The lake's file still has the old format: opening the lake, or a second upgrade, rewrites it."""
    monkeypatch.setattr(Store, "put", _die)
    with pytest.raises(KeyboardInterrupt):
        upgrade(old)
    monkeypatch.undo()
    assert json.loads((old / "lake.json").read_text())["format"] == 1
    continues(old)  # type: ignore[operator]
    assert json.loads((old / "lake.json").read_text())["format"] == 2
    lake = Lake.open(old)
    assert (lake.snapshot().settings, lake.snapshot().count("settings"), lake.check()) == (KEPT, 1, [])


@pytest.mark.parametrize("call", ["write", "link", "unlink", "replace"])
def test_killed_at_any_step_it_is_of_one_format_or_the_other(old: Path, call: str) -> None:
    """Killed with SIGKILL before each call that changes the disk: old and upgradable, or new and sound."""
    crashing = Path(__file__).parents[1] / "connectors" / "crashing.py"
    for count in range(1, 30):
        place = old.with_name(f"{call}-{count}")
        shutil.copytree(old, place)
        command = [
            sys.executable,
            str(crashing),
            f"motet.lake.store:os.{call}",
            str(count),
            "upgrade",
            "--lake",
            str(place),
        ]
        killed = subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
        try:
            lake = Lake.open(place)
        except LakeError as error:
            assert "motet upgrade" in str(error)
            assert upgrade(place) == KEPT
            lake = Lake.open(place)
        assert (lake.snapshot().settings, lake.snapshot().count("settings"), lake.check()) == (KEPT, 1, [])
        if not killed:
            break
    assert count > 1, "the call occurs"


def test_what_cannot_be_upgraded(tmp_path: Path) -> None:
    """A directory without a lake and a damaged file are named."""
    with pytest.raises(LakeError, match="is not a lake"):
        upgrade(tmp_path)
    (tmp_path / "lake.json").write_text('{"format": 1, "lateness": "soon"}')
    with pytest.raises(CorruptLakeError, match="is damaged"):
        upgrade(tmp_path)


def _die(*_: object) -> None:
    raise KeyboardInterrupt
