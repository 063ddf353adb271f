"""A budget for all request bodies that are in memory at once.

The limit of a single body does not bound a thousand of them.  What a request holds it gives back
when it has been answered; one that finds nothing left is refused and may be tried again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from quart_trio.wrappers import TrioRequest
from quart_trio.wrappers.request import TrioBody

from s0d.model.errors import LimitExceeded


class Budget:
    """Bytes that may still be taken."""

    def __init__(self, size: int) -> None:
        self.left = size


class BudgetedBody(TrioBody):
    """A body that takes from a budget as it arrives, until `release`."""

    def __init__(self, budget: Budget, *args: Any) -> None:
        super().__init__(*args)
        self._budget = budget
        self._taken = 0

    def append(self, data: bytes) -> None:
        if self._must_raise is not None:
            return  # refused already: what still comes is not kept
        if len(data) > self._budget.left:
            self._must_raise = LimitExceeded("too many request bodies at once: try again later")
            self.set_complete()
            return
        self._budget.left -= len(data)
        self._taken += len(data)
        super().append(data)

    def release(self) -> None:
        """Give back what was taken; nothing is kept from now on."""
        self._must_raise = self._must_raise or LimitExceeded("the request has ended")
        self.clear()
        self._budget.left += self._taken
        self._taken = 0


def request_class(budget: Budget) -> type[TrioRequest]:
    """Quart's request, with bodies that take from `budget`."""
    return type("BudgetedRequest", (TrioRequest,), {"body_class": partial(BudgetedBody, budget)})
