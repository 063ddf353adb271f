"""Standard input of `s0d run`, forwarded to the first attempt.

A pipe or a file is forwarded to its end, and its end is the command's end of file.  A terminal is
not read: the session outlives us, and what a person types is for `s0d attach`.
"""

from __future__ import annotations

import base64
import os
import stat
import threading
import time
import uuid

from .client import Client
from .errors import ApiError, CliError, ConnectionLost, Unreachable

_CHUNK = 64 * 1024
_RETRY_PAUSE = 0.2


def worth_forwarding(fd: int) -> bool:
    """Is there something to forward?  Not from a terminal, nor from a closed descriptor."""
    try:
        return not os.isatty(fd) and not stat.S_ISDIR(os.fstat(fd).st_mode)
    except OSError:
        return False


class Feed:
    """Reads `fd` in a thread of its own, once `begin` has said for which attempt.

    Each piece has an input id, so that a retry after a broken connection cannot double it.  When
    the attempt has ended, or refuses, the rest is not read.  `error` says why it stopped early.
    """

    def __init__(self, client: Client, session: str, fd: int) -> None:
        self.error: CliError | None = None
        self._client = client
        self._session = session
        self._fd = fd
        self._attempt: str | None = None
        self._prefix = f"run-{uuid.uuid4()}"
        # A daemon thread: a read that never ends must not keep the command from exiting.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self, attempt: str) -> None:
        """Called for every attempt; only the first one is fed."""
        if self._attempt is None:
            self._attempt = attempt
            self._thread.start()

    def _run(self) -> None:
        try:
            number = 0
            while data := os.read(self._fd, _CHUNK):
                number += 1
                self._send(number, {"data_base64": base64.b64encode(data).decode("ascii")})
            self._send(number + 1, {"eof": True})
        except ApiError as error:
            if error.code not in ("session_conflict", "session_not_found"):  # else: it has ended
                self.error = error
        except CliError as error:
            self.error = error
        except OSError as error:
            self.error = CliError(f"stdin: {error.strerror}")

    def _send(self, number: int, content: dict[str, object]) -> None:
        ids = {"input_id": f"{self._prefix}-{number}", "expected_attempt_id": self._attempt}
        while True:
            try:
                self._client.input(self._session, ids | content)
            except ApiError as error:
                if error.status not in (429, 503):
                    raise
                # The child reads slowly.  The daemon offers nothing to wait on, only its advice.
                time.sleep(_RETRY_PAUSE)
            except (ConnectionLost, Unreachable):
                time.sleep(_RETRY_PAUSE)
            else:
                return
