"""`motet overlay`: a network at a shell."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.overlay.net.connection import bind, bound_address


def motet(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "motet.cli.main", "overlay", *arguments]


def test_a_network_at_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`up` prints its nodes when they have joined, `status` and `route` find them, and Ctrl-C stops all processes."""
    directory = str(tmp_path / "net")
    up = subprocess.Popen(
        motet("up", "--nodes", "2", "--directory", directory, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None and up.stderr is not None
        assert up.stderr.readline().startswith("2 nodes have joined; Ctrl-C stops them.")
        assert main(["overlay", "status", "--directory", directory, "--json"]) == 0
        nodes = json.loads(capsys.readouterr().out)["nodes"]
        assert [(node["name"], node["state"], len(node["leaves"])) for node in nodes] == [
            ("node-1", "active", 1),
            ("node-2", "active", 1),
        ]
        key = "0x" + nodes[1]["identifier"]
        assert main(["overlay", "route", key, "--directory", directory, "--from", "node-1", "--json"]) == 0
        route = json.loads(capsys.readouterr().out)
        assert [hop["name"] for hop in route["hops"]] == ["node-1", "node-2"]
        assert route["responsible"]["identifier"] == nodes[1]["identifier"]
        picture, partial = tmp_path / "way.svg", tmp_path / "partial"  # an address book with one of the nodes
        shutil.copytree(tmp_path / "net/operator", partial / "operator")
        book = json.loads((tmp_path / "net/network.json").read_text())
        (partial / "network.json").write_text(json.dumps(book | {"nodes": book["nodes"][:1]}))
        for folder, name in ((directory, "node-2"), (str(partial), nodes[1]["address"])):
            assert main(["overlay", "route", key, "--directory", folder, "--picture", str(picture)]) == 0
            assert all(f">{text}</text>" in picture.read_text() for text in ("node-1", name, "key"))
        capsys.readouterr()
        assert main(["overlay", "route", "a key", "--directory", directory]) == 0
        assert "is a key of node-" in capsys.readouterr().out
        assert main(["overlay", "status", "--directory", directory]) == 0
        assert capsys.readouterr().out.count("active") == 2
        up.send_signal(signal.SIGINT)
        output, errors = up.communicate(timeout=30)
        assert (up.returncode, [node["name"] for node in json.loads(output)["nodes"]]) == (0, ["node-1", "node-2"])
        assert errors == "stopped\n"
    finally:
        up.kill()
        up.wait()
    assert main(["overlay", "status", "--directory", directory]) == 1
    assert "cannot be reached: nobody listens there" in capsys.readouterr().err
    assert main(["overlay", "route", "a key", "--directory", directory]) == 2
    assert "Start them with `motet overlay up`" in capsys.readouterr().err


def test_keys_are_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there is kept, unless it is to be renewed; nothing that is printed is a secret."""
    arguments = ["overlay", "keys", "--directory", str(tmp_path), "--member", "127.0.0.1:4711", "--operator", "--json"]
    states = []
    for more in ([], [], ["--renew"]):
        assert main([*arguments, *more]) == 0
        printed = capsys.readouterr().out
        assert "PRIVATE" not in printed
        states.append([(row["name"], row["state"]) for row in json.loads(printed)])
    made = [(name, "made") for name in ("127.0.0.1:4711", "operator")]
    unchanged = [(name, "unchanged") for name, _ in made]
    assert states == [[("authority", "made"), *made], [("authority", "unchanged"), *unchanged],
                      [("authority", "unchanged"), *made]]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--nodes", "0"], "--nodes must be between 1 and 64, not 0"),
        (["up", "--directory", "taken"], "taken is not empty and is no network's"),
        (["status"], "motet-overlay is not a network's directory: it has no network.json"),
        (["keys", "--directory", "k", "--member", "nowhere"], "'nowhere' is not an address"),
        (["keys", "--directory", "k", "--days", "0"], "--days must be at least 1, not 0"),
        (["node", "--directory", "n"], "n is not a node's directory: it has no node.json"),
        (["node", "--directory", "n", "--begin", "--plain"], "n is not a node's yet"),
        (["node", "--directory", "n", "--plain", "--address", "127.0.0.1:0", "--network", "x"], "has no port"),
        (
            ["node", "--directory", "n", "--plain", "--address", "10.0.0.1:1", "--network", "x"],
            "10.0.0.1:1 is not on this machine, and the connection would be plain",
        ),
    ],
)
def test_a_wrong_request_changes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    """Status 2, the reason, and no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    assert main(["overlay", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_node_without_anybody_to_join_says_whom_it_has_tried(tmp_path: Path) -> None:
    """Each contact is named with the reason; the same is on standard output for programs."""
    free = bind("127.0.0.1:0")
    address = bound_address(free)
    free.close()
    node = motet("node", "--plain", "--directory", str(tmp_path / "n"), "--address", address, "--network", "x")
    ran = subprocess.run([*node, "--contact", "127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        1,
        "motet overlay: no contact can be reached:\n  127.0.0.1:1 cannot be reached: nobody listens there\n"
        "  Check the address, and that the node runs: motet overlay status\n",
    )
    listening, failed = map(json.loads, ran.stdout.splitlines())
    assert (listening["event"], failed["event"]) == ("listening", "failed")
