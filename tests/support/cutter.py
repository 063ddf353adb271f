"""A way to a daemon that breaks: relays a Unix socket and cuts connections off."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_READ: Final = 16 << 10


class Cutter:
    """Listens on `path`; each connection is cut after so many bytes (at random up to `most`), both
    ways counted; every `last` connections one is left whole."""

    def __init__(self, path: Path, to: Path, most: int, seed: int, cuts: int) -> None:
        self.path = path
        self.cuts = 0
        self._to = to
        self._most = most
        self._wanted = cuts
        self._random = random.Random(seed)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            server = socket.socket(socket.AF_UNIX)
            self._open += [client, server]
            server.connect(str(self._to))
            relay = _Relay(self, client, server, self._random.randrange(self._most))
            threads += relay.start()
        for thread in threads:
            thread.join()
        for end in self._open:
            end.close()

    def take(self) -> bool:
        """Is this connection to be cut?"""
        if self.cuts >= self._wanted:
            return False
        self.cuts += 1
        return True


class _Relay:
    def __init__(
        self, cutter: Cutter, client: socket.socket, server: socket.socket, left: int
    ) -> None:
        self._cutter = cutter
        self._ends = (client, server)
        self._left = left
        self._lock = threading.Lock()

    def start(self) -> list[threading.Thread]:
        client, server = self._ends
        pairs = ((client, server), (server, client))
        threads = [threading.Thread(target=self._copy, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        return threads

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_READ):
                with self._lock:
                    self._left -= len(data)
                    cut = self._left < 0 and self._cutter.take()
                    if not cut and self._left < 0:
                        self._left = 1 << 60
                if cut:
                    target.sendall(data[: len(data) // 2])
                    break
                target.sendall(data)
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
