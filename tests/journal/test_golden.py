"""Journals of format version 1, as they were written then, are read by every later version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from s0d.journal import GAP, verify
from s0d.journal.mark import BLOCK
from tests.golden.journal.make import entries
from tests.journal.tools import contents, control, reopen

GOLDEN = Path(__file__).parent.parent / "golden" / "journal"


@pytest.mark.parametrize("name", ["v1-clean", "v1-unclean", "v1-unfinished"])
async def test_version_1_is_read(tmp_path: Path, name: str) -> None:
    path = Path(shutil.copytree(GOLDEN / name, tmp_path / "journal"))
    assert verify(str(path)).ok
    journal = reopen(path)
    records = await contents(journal)
    expected = [entry for n in range(6) for entry in entries(n)]
    assert [tuple(record[1:]) for record in records[:24]] == [tuple(e[:5]) for e in expected]
    assert [record.seq for record in records[:24]] == list(range(1, 25))
    if name != "v1-clean":
        assert records[24].type == GAP
        assert records[24].seq == BLOCK + 1
    assert [r.seq for r in journal.replay(0)] == [r.seq for r in records if r.type != "output"]
    assert journal.append([control()]).first == journal.latest
    journal.close()
    assert verify(str(path)).clean
