"""What a route takes beside path and body: written once, read and documented by it.

A handler asks its call for one of its route's parameters; one that the route does not name cannot
be asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from s0d.model.errors import InvalidRequest
from s0d.model.parse import INT53

MAX_KEY: Final = 255  # characters of an Idempotency-Key

_NUMBER = re.compile(r"[0-9]{1,16}\Z")


@dataclass(frozen=True)
class Number:
    """A whole number; an empty one counts as absent, and then `default` stands for it."""

    name: str
    least: int
    most: int
    default: int | None = None
    header: bool = False

    def parse(self, text: str | None) -> int | None:
        if not text:
            return self.default
        if not _NUMBER.match(text) or not self.least <= int(text) <= self.most:
            raise InvalidRequest(
                f"{self.name}: must be a whole number from {self.least} to {self.most}"
            )
        return int(text)

    @property
    def schema(self) -> dict[str, Any]:
        bounds: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        given = {"anyOf": [bounds, {"type": "string", "maxLength": 0}]}
        return given if self.default is None else {**given, "default": self.default}


@dataclass(frozen=True)
class Text:
    """A word, with `choices` one of them; an empty one counts as absent.

    `many`: it may be given several times, each a list with commas.
    """

    name: str
    choices: tuple[str, ...] = ()
    many: bool = False
    header: bool = False
    longest: int | None = None

    def parse(self, text: str | None) -> str | None:
        if not text:
            return None
        if self.choices and text not in self.choices:
            raise InvalidRequest(f"{self.name}: must be one of {', '.join(self.choices)}")
        return text

    @property
    def schema(self) -> dict[str, Any]:
        one: dict[str, Any] = {"type": "string"}
        if self.choices:
            one["enum"] = [*self.choices, ""]
        if self.longest is not None:
            one |= {"minLength": 1, "maxLength": self.longest}
        return {"type": "array", "items": one} if self.many else one


Param = Number | Text

AFTER: Final = Number("after", 0, INT53)
LAST_EVENT_ID: Final = Number("Last-Event-ID", 0, INT53, header=True)
IDEMPOTENCY_KEY: Final = Text("Idempotency-Key", header=True, longest=MAX_KEY)
FLAG: Final = ("true", "false", "1", "0")
