"""A client looking on: a cursor that is counted while it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from s0d.journal import Cursor

if TYPE_CHECKING:
    from .counts import Counts
    from .session import Session


class Attachment:
    """A client looking on: a cursor that is counted while it is open."""

    def __init__(self, session: Session, cursor: Cursor, counts: Counts) -> None:
        self._counts = counts
        self._session = session
        self._cursor = cursor

    def __enter__(self) -> Cursor:
        self._session.attachments += 1
        self._counts.attached += 1
        self._session.watching.add(self._cursor)
        return self._cursor.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._session.watching.discard(self._cursor)
        self._cursor.close()
        self._counts.attached -= 1
        self._session.detached()
