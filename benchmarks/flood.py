"""Programs that write as fast as they can, and whether what was read is what they wrote."""

from __future__ import annotations

import shutil
import sys
import zlib
from dataclasses import dataclass
from functools import lru_cache

from .client import Output

_BLOCK = 4096 * 16
_BLOCKS = (
    "import os, sys\n"
    "for number in range(int(sys.argv[1])):\n"
    "    left = b'%015d\\n' % number * 4096\n"
    "    while left: left = left[os.write(1, left):]\n"
)
_LINES = (
    "import os, sys\nfor number in range(int(sys.argv[1])): os.write(1, b'%019d\\n' % number)\n"
)


@dataclass(frozen=True)
class Flood:
    """So many blocks of 64 KiB, each with its number in each of its lines."""

    blocks: int

    @property
    def size(self) -> int:
        return self.blocks * _BLOCK

    @property
    def command(self) -> list[str]:
        return _python(_BLOCKS, self.blocks)

    @property
    def raw_terminal(self) -> list[str]:
        """The command for a terminal that passes bytes on as they are."""
        return ["sh", "-c", 'stty raw -echo; exec "$@"', "sh", *self.command]

    def check(self, output: Output) -> None:
        """Raises `RuntimeError` unless exactly this was read."""
        expect(output, self.size, _checksum(self.blocks))

    def check_end(self, output: Output, least: int) -> None:
        """The same where retention has removed the beginning: this flood's end was read."""
        if output.size < min(least, self.size):
            raise RuntimeError(f"only {output.size} bytes are left, not {least}")
        first = max(0, self.blocks - output.size // _BLOCK - 1)
        data = b"".join([_block(number) for number in range(first, self.blocks)])
        expect(output, output.size, zlib.crc32(memoryview(data)[-output.size :]))

    def speed(self, seconds: float) -> float:
        """MB/s."""
        return self.size / 1e6 / seconds


@dataclass(frozen=True)
class Lines:
    """So many lines of 20 bytes, each written by itself."""

    count: int

    @property
    def command(self) -> list[str]:
        return _python(_LINES, self.count)

    def check(self, output: Output) -> None:
        """Raises `RuntimeError` unless exactly this was read."""
        data = b"".join([b"%019d\n" % number for number in range(self.count)])
        expect(output, len(data), zlib.crc32(data))


def expect(output: Output, size: int, checksum: int) -> None:
    """Raises `RuntimeError` where something else was read."""
    if (output.size, output.checksum) != (size, checksum):
        raise RuntimeError(f"{output.size} bytes that are not the {size} written")


@lru_cache
def _checksum(blocks: int) -> int:
    checksum = 0
    for number in range(blocks):
        checksum = zlib.crc32(_block(number), checksum)
    return checksum


def _block(number: int) -> bytes:
    return b"%015d\n" % number * 4096


def _python(program: str, *arguments: int) -> list[str]:
    python = shutil.which("python3") or sys.executable
    return [python, "-I", "-S", "-c", program, *map(str, arguments)]
