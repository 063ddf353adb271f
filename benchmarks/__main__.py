"""`python -m benchmarks`: run the sections, print a table, and JSON where it is asked for."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from . import commands, echoes, footprint, output, restarts
from .command_line import command_line
from .daemon import Daemon
from .figure import Figure, median
from .screens import screens

SECTIONS: dict[str, Callable[[Daemon, float], list[Figure]]] = {
    "pipe": output.pipe,
    "terminal": output.terminal,
    "lines": output.lines,
    "echo": echoes.echo,
    "flooded": echoes.flooded,
    "inputs": commands.inputs,
    "creations": commands.creations,
    "restart": restarts.full,
    "restart-many": restarts.many,
    "restart-running": restarts.running,
    "rest": footprint.rest,
    "pages": footprint.pages,
    "written": footprint.written,
    "thousand": footprint.thousand,
    "command-line": command_line,
    "screens": screens,
}


def main() -> int:
    """The exit code: 1 where a daemon delivered something wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help=f"sections, with commas: {','.join(SECTIONS)}")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the amounts (default: 1)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(SECTIONS)
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    before = os.getloadavg()[0]
    figures = []
    for name in names:
        try:
            figures += measure(name, options.runs, options.scale)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    print(table(figures, f"load before: {before:.1f}, after: {os.getloadavg()[0]:.1f}"))
    if options.json is not None:
        options.json.write_text(as_json(figures, before))
    return 0


def measure(section: str, runs: int, scale: float) -> list[Figure]:
    """Medians of a section, each run with a daemon of its own."""
    results = []
    for number in range(runs):
        print(f"{section}: run {number + 1} of {runs}", file=sys.stderr)
        with Daemon() as daemon:
            results.append(SECTIONS[section](daemon, scale))
    return [median(list(same)) for same in zip(*results, strict=True)]


def table(figures: list[Figure], note: str) -> str:
    """For a person."""
    rows = [("figure", "value", "raw", "ratio", "CPU s"), *map(row_of, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, note])


def row_of(figure: Figure) -> tuple[str, ...]:
    """The cells of one figure."""
    return (
        figure.name,
        f"{figure.value:.4g} {figure.unit}",
        "" if figure.raw is None else f"{figure.raw:.4g}",
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.cpu is None else f"{figure.cpu:.2f}",
    )


def as_json(figures: list[Figure], load: float) -> str:
    """For a program."""
    machine = {"cpus": os.cpu_count(), "kernel": platform.release(), "load_before": load}
    values = [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
    return json.dumps({"machine": machine, "figures": values}, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
