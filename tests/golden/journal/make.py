"""Makes the golden journals of format version 1. Run once; the files stay as they are."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from s0d.journal import Entry, Journal, Limits
from tests.journal.disks import FailDisk, Stopped
from tests.journal.tools import SESSION

HERE = Path(__file__).parent


def entries(start: int) -> list[Entry]:
    """Each kind of value that a record can hold."""
    time_ns = 1_700_000_000_000_000_000 + start
    return [
        Entry(time_ns, 1, None, "session.created", {"text": "é\u2028", "n": -(2**31), "f": 0.5}),
        Entry(time_ns, 1, "att-1", "output", {"stream": "pty", "data": bytes(range(256))}, True),
        Entry(time_ns, 2, "att-1", "attempt.exited", {"deep": {"list": [None, True, 2**53 - 1]}}),
        Entry(time_ns, 2, "att-1", "output", {"stream": "stdout", "data": b"x" * 7000}, True),
    ]


def make(name: str, *, clean: bool, unfinished: bool = False) -> None:
    """``unfinished``: the process ended in the middle of one more append."""
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    disk = FailDisk()
    journal = Journal.create(disk, str(path), SESSION, Limits(256 * 1024))
    for n in range(6):
        journal.append(entries(n))
    if unfinished:
        # Its last record has a segment for itself, of which the header alone is written.
        disk.fail("writev", name="28.seg", skip=1, stop=True)
        with suppress(Stopped):
            journal.append(entries(6))
    journal.close(clean=clean)


if __name__ == "__main__":
    make("v1-clean", clean=True)
    make("v1-unclean", clean=False)
    make("v1-unfinished", clean=False, unfinished=True)
