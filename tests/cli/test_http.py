"""One request, one answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from s0d.cli import http
from s0d.cli.errors import ConnectionLost, Unreachable
from s0d.cli.target import resolve
from tests.cli.fake import Answer, FakeServer


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Reads one head, sends `answer`, hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/base"
        thread.join()


def test_over_tcp_past_informational_answers() -> None:
    answer = (
        b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nX-Thing: 1\r\nContent-Length: 2\r\n\r\nhi"
    )
    with (
        raw_server(answer) as url,
        http.send(resolve(url, "t", {}), "GET", "/x") as response,
    ):
        assert (response.status, response.headers["x-thing"]) == (200, "1")
        assert response.read() == b"hi"


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\n", b"SSH-2.0-OpenSSH\r\n\r\n"],
)
def test_no_answer(answer: bytes) -> None:
    with raw_server(answer) as url, pytest.raises(ConnectionLost):
        http.send(resolve(url, None, {}), "GET", "/")


@pytest.mark.parametrize("head", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_half_an_answer(head: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n5\r\nh"
    with (
        raw_server(answer) as url,
        http.send(resolve(url, None, {}), "GET", "/") as response,
        pytest.raises(ConnectionLost),
    ):
        response.read()


def test_an_answer_before_the_body_was_read_counts() -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    with (
        raw_server(answer) as url,
        http.send(resolve(url, None, {}), "POST", "/", body=b"x" * 1000) as response,
    ):
        assert response.status == 413


def test_a_silent_stream_times_out(fake: FakeServer) -> None:
    quiet = threading.Event()

    def chunks() -> Iterator[bytes]:
        yield b"a"
        quiet.wait(10)

    fake.answer = lambda request: Answer(chunks=chunks())
    target = resolve(fake.url, None, {})
    with http.send(target, "GET", "/", read_timeout=0.1) as response:
        body = response.chunks()
        assert next(body) == b"a"
        with pytest.raises(ConnectionLost):
            next(body)
    quiet.set()


def test_no_token_without_one_and_the_right_host(fake: FakeServer) -> None:
    fake.script(Answer())
    http.send(resolve(fake.url, None, {}), "GET", "/").close()
    headers = fake.requests[0].headers
    assert "Authorization" not in headers
    assert headers["Host"] == "localhost"
    assert headers["Connection"] == "close"
    assert headers["User-Agent"].startswith("s0d/")


def test_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no daemon answers on unix:/nowhere: No such file"):
        http.connect(resolve("unix:/nowhere", None, {}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="Connection refused"):
        http.connect(resolve(f"http://127.0.0.1:{port}", None, {}))
