"""The directory of a node: its address, its certificate, and what it persisted. One process at a time uses it.

DIR/node.json                      address, network and contacts
DIR/certificate.pem, authority.pem, member.key     unless the network is plain
DIR/disk/HASH                      one persisted value: a msgpack list of its key and the value
DIR/node.log                       the node's log
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from motet.model.errors import OverlayError, UsageError
from motet.overlay.sim.scenario import CAN, PASTRY, parse_setting

SHAPE = ("protocol", "leaf_size", "dimensions", "greedy")  # settings of a scenario that are settings of a node, too


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node's process needs to know of itself and of its network."""

    address: str
    network: str
    is_plain: bool
    contacts: tuple[str, ...] = ()  # addresses of nodes that it joins by
    protocol: str = PASTRY
    leaf_size: int = 16  # of Pastry
    dimensions: int = 4  # of a CAN
    greedy: bool = False  # how a CAN routes
    speed: float = 1.0  # how much faster than real time the node's clock runs, for experiments

    @property
    def overlay_name(self) -> str:
        """What nodes that connect to each other must agree on."""
        return overlay_name(self.network, self.protocol, self.dimensions)


def overlay_name(network: str, protocol: str, dimensions: int) -> str:
    """The name of a network with what its nodes must have alike.

    >>> overlay_name("lab", "can", 2)
    'lab (a CAN of 2 dimensions)'
    """
    return f"{network} (a CAN of {dimensions} dimensions)" if protocol == CAN else network


class NodeDirectory:
    """The files of one node. `lock` before use; persisted values are complete or absent, whatever happens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._disk = path / "disk"
        self._lock: int | None = None

    @property
    def log_path(self) -> Path:
        return self.path / "node.log"

    def create(self, settings: NodeSettings) -> None:
        """Make the directory, or replace its settings."""
        self._disk.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        write_atomically(self.path / "node.json", json.dumps(asdict(settings), indent=2).encode() + b"\n")

    def settings(self) -> NodeSettings:
        """The settings that `create` wrote."""
        fields = read_json(
            self.path / "node.json",
            "a node's directory",
            "Name the node's --address and --network: motet overlay node --help",
        )
        name = str(self.path / "node.json")
        shape = {key: parse_setting(key, fields[key], name) for key in SHAPE if key in fields}
        try:
            return NodeSettings(
                address=str(fields["address"]),
                network=str(fields["network"]),
                is_plain=bool(fields["is_plain"]),
                contacts=tuple(map(str, fields.get("contacts", ()))),
                speed=float(fields.get("speed", 1.0)),
                **shape,
            )
        except KeyError as error:
            raise OverlayError(f"{name} has no field {error}") from None
        except (TypeError, ValueError) as error:
            raise OverlayError(f"{name} has a wrong value: {error}") from None

    def lock(self) -> None:
        """Reserve the identity for this process until it ends."""
        descriptor = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise OverlayError(
                f"another process runs the node in {self.path}", advice="Stop it first, or use another directory."
            ) from None
        self._lock = descriptor

    def unlock(self) -> None:
        """Release the identity."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read_disk(self) -> dict[str, bytes]:
        """Everything that is persisted."""
        from motet.overlay.net.frames import decode_value

        self._disk.mkdir(parents=True, exist_ok=True, mode=0o700)
        values: dict[str, bytes] = {}
        for path in sorted(self._disk.iterdir()):
            if path.name.startswith("."):  # begun before a crash and never complete
                path.unlink()
                continue
            stored = decode_value(path.read_bytes())
            if not (isinstance(stored, list) and list(map(type, stored)) == [str, bytes]):
                raise OverlayError(f"{path} is no persisted value", advice="Delete the file; the value is lost.")
            values[stored[0]] = stored[1]
        return values

    def clear_disk(self) -> None:
        """Delete everything that is persisted, as the loss of a disk does."""
        for path in self._disk.iterdir():
            path.unlink()

    def persist(self, key: str, value: bytes | None) -> None:
        """Store a value under a key so that it survives a crash of the machine; None deletes it."""
        from motet.overlay.net.frames import encode_value

        path = self._disk / hashlib.sha256(key.encode()).hexdigest()
        if value is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, encode_value([key, value]), mode=0o600)


def read_json(path: Path, subject: str, advice: str) -> Mapping[str, Any]:
    """The object in a JSON file; UsageError says what the file belongs to."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path.parent} is not {subject}: it has no {path.name}", advice=advice) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", advice=advice) from None
    if not isinstance(value, dict):
        raise UsageError(f"{path} is no JSON object", advice=advice)
    return value


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file that appears complete; it never has a wider mode than this."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")  # only its owner can read it
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(mode)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
