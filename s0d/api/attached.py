"""The body of an answer that is an attachment for as long as it is sent."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from quart.wrappers.response import ResponseBody

if TYPE_CHECKING:
    from s0d.supervisor import Session


class AttachedBody(ResponseBody):
    """Reads the session's journal from behind `after`; attached from its making until `close`.

    Raises what attaching raises: before the head of the answer.
    """

    def __init__(self, session: Session, after: int | None) -> None:
        self._attachment = session.attach(after)
        self._cursor = self._attachment.__enter__()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach.  May be called twice, and without the answer ever having begun."""
        if not self._closed:
            self._closed = True
            self._attachment.__exit__(None, None, None)

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> bytes: ...
