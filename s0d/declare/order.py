"""Who waits for whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from s0d.model.errors import InvalidRequest


def ordered(depends_on: Mapping[str, Collection[str]]) -> list[str]:
    """Each after all that it depends on; in the order given where that leaves a choice."""
    try:
        return [*TopologicalSorter(depends_on).static_order()]
    except CycleError as error:
        raise InvalidRequest(
            f"depends_on: goes in a circle: {' -> '.join(error.args[1])}"
        ) from None


def with_dependencies(
    names: Collection[str], depends_on: Mapping[str, Collection[str]]
) -> set[str]:
    """`names` and all that they depend on."""
    found: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += depends_on.get(name, ())
    return found
