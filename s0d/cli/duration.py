"""A duration as a flag's value: `30`, `30s`, `5m`, `2h`, `7d`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM: Final = re.compile(r"([0-9]{1,10})([smhd]?)")


class Seconds(click.ParamType[int]):
    """Whole seconds; a plain number means seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _FORM.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a duration: write 30, 30s, 5m, 2h or 7d", param, ctx)
        return int(match[1]) * _UNITS[match[2]]


SECONDS: Final = Seconds()
