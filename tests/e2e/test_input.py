"""Input to children that make it hard: large, slow, never read; nothing acknowledged is lost."""

from __future__ import annotations

import base64
import hashlib
import random
import sys
import time
from typing import Any, Final

import pytest
import trio

from tests.support.client import Answer, Client
from tests.support.daemon import Daemon

MIB: Final = 1 << 20
PATIENCE: Final = 120.0
PIECE: Final = 200_000
SLOW: Final = """
import hashlib, os, sys, time
total, left = hashlib.blake2b(), int(sys.argv[1])
print("ready", flush=True)
while left and (data := os.read(0, 5000)):
    total.update(data)
    left -= len(data)
    time.sleep(0.0005)
print("got", total.hexdigest(), flush=True)
"""


@pytest.fixture
def client(shared_daemon: Daemon) -> Client:
    return Client(shared_daemon.socket)


async def create(client: Client, *command: str, **spec: Any) -> str:
    answer = await client.ask("POST", "", {"command": command, "cwd": "/", **spec})
    assert answer.status == 201, answer
    return str(answer.data["id"])


async def wait_output(client: Client, session: str, text: str) -> None:
    body = {"for": {"output": text}, "timeout_ms": int(PATIENCE * 1000)}
    answer = await client.ask("POST", f"/{session}/wait", body)
    assert answer.status == 200, answer


async def send(client: Client, session: str, number: int, data: bytes, **more: Any) -> Answer:
    encoded = base64.b64encode(data).decode()
    body = {"input_id": f"input-{number}", "data_base64": encoded, **more}
    return await client.ask("POST", f"/{session}/inputs", body)


async def send_all(client: Client, session: str, data: bytes, piece: int = PIECE) -> None:
    """In pieces; one that finds the queue full is sent again."""
    with trio.fail_after(PATIENCE):
        for number, start in enumerate(range(0, len(data), piece)):
            while True:
                answer = await send(client, session, number, data[start : start + piece])
                if answer.status == 202:
                    break
                assert answer.status == 429, answer
                await trio.sleep(0.01)  # the queue tells nobody outside when it drains


async def delete(client: Client, session: str) -> None:
    assert (await client.ask("DELETE", f"/{session}")).status == 200


async def test_eight_megabytes_through_cat(client: Client) -> None:
    data = random.Random(1).randbytes(8_000_000)
    session = await create(client, "cat")
    with trio.fail_after(PATIENCE):
        await send_all(client, session, data)
        answer = await send(client, session, 10**6, b"", eof=True)
        assert answer.status == 202, answer
        done = await client.ask("POST", f"/{session}/wait", {"for": {"exit": True}})
        assert done.status == 200, done
    digest = hashlib.blake2b()
    for event in await client.history(session):
        if event.fields["type"] == "output":
            digest.update(base64.b64decode(event.fields["data_base64"]))
    assert digest.digest() == hashlib.blake2b(data).digest()
    await delete(client, session)


@pytest.mark.parametrize("mode", ["pipes", "pty"])
async def test_one_that_never_reads_fills_its_queue_and_can_be_stopped(
    client: Client, mode: str
) -> None:
    script = ("stty raw -echo; " if mode == "pty" else "") + "echo ready; exec sleep 1000"
    session = await create(client, "sh", "-c", script, io={"mode": mode})
    await wait_output(client, session, "ready")
    accepted = 0
    for number in range(12):
        answer = await send(client, session, number, bytes(PIECE))
        if answer.status != 202:
            break
        accepted += PIECE
    assert (answer.status, answer.error["code"]) == (429, "input_buffer_full")
    assert MIB - PIECE < accepted < 2 * MIB
    assert (await send(client, session, 0, bytes(PIECE))).data["duplicate"] is True
    eof = await send(client, session, 99, b"", eof=True)
    assert eof.status == 202, "the end waits its turn behind a full queue"
    began = time.monotonic()
    stopped = await client.ask("PUT", f"/{session}/desired-state", {"state": "stopped"})
    assert (stopped.status, stopped.data["phase"]) == (200, "stopped")
    assert time.monotonic() - began < 5
    await delete(client, session)


@pytest.mark.parametrize(
    ("mode", "stty", "size"),
    [("pipes", "", 2 * MIB), ("pty", "stty raw -echo; ", MIB), ("pty", "stty -echo; ", MIB)],
)
async def test_a_slow_reader_gets_every_byte(
    client: Client, mode: str, stty: str, size: int
) -> None:
    line = bytes(range(97, 122)) * 160  # 4,000 bytes: a canonical line has room for 4,095
    data = b"".join(line + b"\n" for _ in range(size // 4001))
    script = f'{stty}exec "$0" -c "$1" "$2"'
    command = ("sh", "-c", script, sys.executable, SLOW, str(len(data)))
    session = await create(client, *command, io={"mode": mode})
    await wait_output(client, session, "ready")
    await send_all(client, session, data, 40_010)
    await wait_output(client, session, "got " + hashlib.blake2b(data).hexdigest())
    await delete(client, session)
