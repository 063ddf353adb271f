"""Sessions by what a person calls them: an id, a unique beginning of one, or a unique name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from .errors import NotFound, UsageError

Json = dict[str, Any]

_WHOLE: Final = re.compile(r"ses-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_SHOWN: Final = 5


def is_whole_id(text: str) -> bool:
    return _WHOLE.match(text) is not None


def pick(sessions: Iterable[Json], called: str) -> Json:
    """The session that is called so; an id wins over a name, a name over the beginning of an id.

    `NotFound`; `UsageError` where it may be several.
    """
    every = list(sessions)
    for found in (
        [one for one in every if one["id"] == called],
        [one for one in every if one["spec"].get("name") == called],
        [one for one in every if called and begins(one["id"], called)],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{called}: may be any of {_list(found)}: say which by its id")
    raise NotFound(f"no session is called {called}, by id, beginning of an id or name")


def begins(id: str, text: str) -> bool:
    """Also without the `ses-` that all begin with."""
    return (len(text) > len("ses-") and id.startswith(text)) or id.startswith(f"ses-{text}")


def _list(sessions: list[Json]) -> str:
    shown = [f"{one['id']} ({one['phase']})" for one in sessions[-_SHOWN:]]
    more = len(sessions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
