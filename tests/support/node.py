"""Programs from npm, where there are any."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def node_modules(package: str) -> str:
    """The `node_modules` that `S0D_TEST_NODE_MODULES` names, with `package` in it; else a skip."""
    found = os.environ.get("S0D_TEST_NODE_MODULES", "")
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    if not Path(found, package, "package.json").is_file():
        pytest.skip(f"S0D_TEST_NODE_MODULES names no node_modules with the package {package}")
    return found
