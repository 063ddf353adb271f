"""A fuzzer that reads the API's description, against a real daemon.

`pip install 's0d[fuzz]'` into an environment of its own, and name its program in
`S0D_TEST_SCHEMATHESIS`; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.daemon import Daemon

SECONDS = int(os.environ.get("S0D_TEST_SCHEMATHESIS_SECONDS", "20"))
PROGRAM = os.environ.get("S0D_TEST_SCHEMATHESIS") or shutil.which("schemathesis")

# All checks are on but one.  What is accepted cannot be said whole in a schema: a length counts
# UTF-8 bytes, `tail` excludes `after`, a `wait` needs one of five conditions, an expression is
# RE2's, base64 is strict.  Sending what the schema allows may so be a 400.
EXCLUDED_CHECKS = "positive_data_acceptance"
# Streams and sockets do not end by themselves, a wait ends when its time is over, and so may a
# command whose output is waited for.
EXCLUDED_PATHS = r"(/stream|/attach|/ws|/wait|\{sandbox_id\}/exec)$"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="schemathesis is not installed")


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(240, marks=pytest.mark.long)])
def test_no_request_finds_a_fault(daemon: Daemon, tmp_path: Path, seconds: int) -> None:
    assert PROGRAM is not None
    authorization = f"Bearer {daemon.token}"
    headers = {"Authorization": authorization}
    described = httpx.get(f"{daemon.url}/openapi.json", headers=headers).json()
    # Directories with random names anywhere on this machine are more than a test may make.
    del described["components"]["schemas"]["ConfigBody"]["properties"]["root"]
    schema = tmp_path / "openapi.json"
    schema.write_text(json.dumps(described))
    done = subprocess.run(
        [
            *(PROGRAM, "run", str(schema), "--url", daemon.url, "--no-color"),
            *("--header", f"Authorization: {authorization}"),
            *("--max-time", str(seconds), "--max-examples", "20", "--request-timeout", "30"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--continue-on-failure"),
            *("--exclude-checks", EXCLUDED_CHECKS, "--exclude-path-regex", EXCLUDED_PATHS),
        ],
        capture_output=True,
        text=True,
        timeout=seconds + 120,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("S0D_")},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert not [line for line in daemon.log() if line["level"] in ("error", "critical")]
    answer = httpx.get(f"{daemon.url}/healthz")
    assert answer.status_code == 200
