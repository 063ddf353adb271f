"""The form of every identifier (wire contract, section 1).

Ids are checked before anything else sees them: a string that passed here is safe as a file name.
Idempotency keys, input ids and session names never become paths and are not checked here.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

SANDBOX: Final = "[a-z0-9][a-z0-9_-]{0,62}"
SESSION: Final = "ses-[0-9a-f-]{12,36}"

_SANDBOX = re.compile(SANDBOX)
_SESSION = re.compile(SESSION)


def is_sandbox_id(text: str) -> bool:
    return _SANDBOX.fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    return _SESSION.fullmatch(text) is not None


def new_session_id() -> str:
    return f"ses-{uuid.uuid4()}"


def new_attempt_id() -> str:
    return f"att-{uuid.uuid4()}"
