"""Memory of the process: tried in processes of their own, nothing of it can be undone."""

from __future__ import annotations

import subprocess
import sys

BLOCKS = """
import os, resource
from s0d.daemon.memory import tune_allocator

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    with open("/dev/zero", "rb", buffering=0) as file:
        for _ in range(50):
            blocks = [os.read(file.fileno(), 65536) for _ in range(32)]
            del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

plain = faults()
tune_allocator()
faults()
print(plain, faults())
"""

COLLECTOR = """
import gc
from s0d.daemon.memory import tune_collector

tune_collector()
print(gc.get_freeze_count(), gc.get_threshold()[0], gc.isenabled())
"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_blocks_of_output_reuse_their_pages() -> None:
    plain, tuned = map(int, run(BLOCKS))
    assert plain > 1000
    assert tuned < 100


def test_what_was_loaded_is_not_collected_again() -> None:
    frozen, threshold, enabled = run(COLLECTOR)
    assert int(frozen) > 1000
    assert int(threshold) == 10_000
    assert enabled == "True"
