"""`python -m s0d`, the same as the command `s0d`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; `--version` is answered before anything is imported for it."""
    if sys.argv[1:] == ["--version"]:
        from s0d import __version__

        print(f"s0d {__version__}")
        return 0
    from s0d.cli.main import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
