"""TLS with a real daemon: HTTP/2 and 1.1, versions, client certificates, a new certificate."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h2.connection
import httpx
import pytest
import trio
import trustme
import websockets.sync.client as ws_client

from tests.e2e.test_metrics import run, settled
from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

MakeDaemon = Callable[..., Daemon]
PATIENCE = 20.0
CAT = {"command": ["cat"]}


class Authority:
    """A certificate authority, and files of what it issues."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.directory = directory
        self.certificate, self.key = directory / "cert.pem", directory / "key.pem"
        self.file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.file))
        self.issue()

    def issue(self) -> bytes:
        """A new certificate for the daemon; its own bytes."""
        issued = self.ca.issue_cert("127.0.0.1", "localhost")
        issued.private_key_pem.write_to_path(str(self.key))
        issued.cert_chain_pems[0].write_to_path(str(self.certificate))
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())

    @property
    def settings(self) -> dict[str, str]:
        return {
            "S0D_DAEMON_TLS_CERTIFICATE": str(self.certificate),
            "S0D_DAEMON_TLS_KEY": str(self.key),
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def client(daemon: Daemon, context: ssl.SSLContext, *, http2: bool) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {daemon.token}"}
    url = f"https://127.0.0.1:{daemon.port}/api/v1"
    with httpx.Client(
        base_url=url, headers=headers, verify=context, http2=http2, timeout=PATIENCE
    ) as made:
        yield made


def shown(daemon: Daemon, context: ssl.SSLContext) -> bytes:
    """The certificate that a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.parametrize("http2", [False, True])
def test_rest_and_event_streams(make_daemon: MakeDaemon, authority: Authority, http2: bool) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    with client(daemon, authority.context(), http2=http2) as api:
        made = api.post("/sessions", json={"command": ["sh", "-c", "seq 100000; cat"]})
        assert (made.status_code, made.http_version) == (201, "HTTP/2" if http2 else "HTTP/1.1")
        one = f"/sessions/{made.json()['data']['id']}"
        with api.stream("GET", f"{one}/events/stream") as events:
            assert events.headers["content-type"] == "text/event-stream"
            for line in events.iter_lines():
                if line.startswith("data:") and '"type":"output"' in line:
                    break
            # Other requests of the same connection go on beside it.
            assert api.get(one).json()["data"]["phase"] == "running"
        big = api.get(f"{one}/events?limit=10000")
        assert big.status_code == 200
        body = {"input_id": "i", "data_base64": "QUFB" * 100_000}
        assert api.post(f"{one}/inputs", json=body).status_code == 202
        assert api.get("/nowhere").json()["error"]["code"] == "not_found"
        large = api.post("/sessions", content=b"x" * (17 << 20))
        assert large.status_code in (413, 415)
        assert api.delete(one).status_code == 200
        assert api.get(one).status_code == 404


async def test_many_at_once_on_one_connection(
    make_daemon: MakeDaemon, authority: Authority
) -> None:
    """By tasks: httpx's threads may send streams out of their order."""
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    url, headers = f"https://127.0.0.1:{daemon.port}", {"Authorization": f"Bearer {daemon.token}"}
    statuses = []
    async with httpx.AsyncClient(
        base_url=url, headers=headers, verify=authority.context(), http2=True, timeout=PATIENCE
    ) as api:
        await api.get("/healthz")

        async def create() -> None:
            statuses.append((await api.post("/api/v1/sessions", json=CAT)).status_code)

        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(create)
        listed = await api.get("/api/v1/sessions")
    assert statuses == [201] * 250
    assert len(listed.json()["data"]["sessions"]) == 250
    assert daemon.stop() == 0
    opened = [line for line in daemon.log() if line["logger"] == "s0d.access"]
    assert len(opened) >= 250


def test_edges_hold_over_http2(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    with client(daemon, authority.context(), http2=True) as api:
        assert api.get("/sessions", headers={"Authorization": "Bearer x"}).status_code == 401
        assert api.get("/sessions", headers={"Host": "evil.example"}).status_code == 421
        assert api.get("/sessions", headers={"Origin": "https://evil.example"}).status_code == 403
        assert api.get("/sandboxes/..%2fx/sessions").status_code == 404
        own = api.get("/sessions", headers={"X-Request-Id": "mine"})
        assert own.headers["x-request-id"] == "mine"


def test_a_client_that_leaves_before_its_answer_leaves_nothing(
    make_daemon: MakeDaemon, authority: Authority
) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    context = authority.context()
    context.set_alpn_protocols(["h2"])
    peer = h2.connection.H2Connection()
    peer.initiate_connection()
    head = [(":method", "GET"), (":path", "/healthz")]
    head += [(":scheme", "https"), (":authority", "localhost")]
    for stream in (1, 3, 5):
        peer.send_headers(stream, head, end_stream=True)
    request = peer.data_to_send()
    for _ in range(40):
        with (
            socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(request)
            assert secure.recv(1)  # so that the end comes amid the answers
    settled(daemon)


def test_websockets(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    session = run(daemon, "cat")
    headers = {"Authorization": f"Bearer {daemon.token}"}
    url = f"wss://127.0.0.1:{daemon.port}/api/v1/sessions/{session}/ws"
    with ws_client.connect(url, ssl=authority.context(), additional_headers=headers) as socket_:
        socket_.send('{"type":"input","input_id":"i","data_base64":"aGVsbG8="}')
        while "aGVsbG8=" not in str(socket_.recv(timeout=PATIENCE)):
            pass


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_what_is_too_old_or_not_tls_at_all(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env={**authority.settings, "S0D_DAEMON_LIMITS_HEADER_SECONDS": "1"})
    daemon.start()
    old = authority.context()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shown(daemon, old)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        one = authority.context()
        one.minimum_version = one.maximum_version = version
        assert shown(daemon, one)
    for sent in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01", b""):
        with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as plain:
            plain.sendall(sent)
            said = b""
            try:
                while part := plain.recv(4096):
                    said += part
            except ConnectionResetError:
                pass
            assert b"HTTP" not in said  # closed, at once or after the time for a handshake
    with client(daemon, authority.context(), http2=False) as api:
        assert api.get("/sessions").status_code == 200


def test_client_certificates(make_daemon: MakeDaemon, authority: Authority, tmp_path: Path) -> None:
    daemon = make_daemon(
        env={**authority.settings, "S0D_DAEMON_TLS_CLIENT_CA": str(authority.file)}
    )
    daemon.start()
    with (
        client(daemon, authority.context(), http2=False) as api,
        pytest.raises((httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)),
    ):
        api.get("/sessions")
    (tmp_path / "other").mkdir()
    foreign = Authority(tmp_path / "other").ca.issue_cert("someone@example.org")
    for issued, status in ((foreign, None), (authority.ca.issue_cert("me@example.org"), 200)):
        context = authority.context()
        issued.configure_cert(context)
        with client(daemon, context, http2=True) as api:
            if status is None:
                with pytest.raises(httpx.TransportError):
                    api.get("/sessions")
                continue
            assert api.get("/sessions").status_code == status
            # It stands beside the token, not in its place.
            assert api.get("/sessions", headers={"Authorization": ""}).status_code == 401


def test_a_new_certificate_without_a_restart(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    first = shown(daemon, authority.context())
    with client(daemon, authority.context(), http2=True) as api:
        session = api.post("/sessions", json=CAT).json()["data"]["id"]
        with api.stream("GET", f"/sessions/{session}/events/stream") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(":")
            second = authority.issue()
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGHUP)
            wait_for_text(daemon.log_file, '"message": "reloaded"')
            assert shown(daemon, authority.context()) == second != first
            assert api.get(f"/sessions/{session}").json()["data"]["phase"] == "running"
            authority.certificate.write_text("nonsense")
            daemon.process.send_signal(signal.SIGHUP)
            wait_for_text(daemon.log_file, "cannot reload")
            assert shown(daemon, authority.context()) == second
            api.delete(f"/sessions/{session}")
            assert any("attempt.exited" in line for line in lines)


def test_files_that_cannot_be_used(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env=authority.settings)
    for name in ("S0D_DAEMON_TLS_KEY", "S0D_DAEMON_TLS_CERTIFICATE"):
        done = daemon.cli("config", "check", env={**authority.settings, name: "/nonexistent"})
        assert done.returncode == 2
        assert b"tls: " in done.stderr
    done = daemon.cli("config", "check", env={"S0D_DAEMON_TLS_KEY": str(authority.key)})
    assert b"needs tls_certificate and tls_key" in done.stderr
    daemon.start()


def test_an_orderly_end_with_clients_of_both_kinds(
    make_daemon: MakeDaemon, authority: Authority
) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    session = run(daemon, "cat")
    path = f"/sessions/{session}/events/stream"
    with (
        client(daemon, authority.context(), http2=True) as two,
        client(daemon, authority.context(), http2=False) as one,
        two.stream("GET", path) as first,
        one.stream("GET", path) as second,
    ):
        for stream in (first, second):
            assert next(iter(stream.iter_raw())).startswith(b":")
        assert daemon.stop() == 0


def test_our_own_command_line(make_daemon: MakeDaemon, authority: Authority) -> None:
    daemon = make_daemon(env=authority.settings)
    daemon.start()
    url = f"https://127.0.0.1:{daemon.port}"
    known = {"S0D_URL": url, "S0D_TOKEN": daemon.token, "SSL_CERT_FILE": str(authority.file)}
    done = daemon.cli("run", "--", "echo", "hello", env=known)
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    stranger = {**known, "SSL_CERT_FILE": str(authority.directory / "none.pem")}
    assert daemon.cli("session", "list", env=stranger).returncode != 0
