"""Small files of the home: private, and replaced as a whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from local.errors import LocalError

ANOTHER = "Delete it, and `retrieval up` makes another one."


def write_private(file: Path, text: str) -> None:
    """Write atomically and durably, readable by the owner only."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)


def read_secret(file: Path, remedy: str) -> str:
    """The one line that such a file holds; LocalError with what to do where it is damaged, as after a full disk."""
    try:
        text = file.read_text().strip()
    except (UnicodeDecodeError, IsADirectoryError):
        text = ""
    if not text or not text.isprintable():
        raise LocalError(f"{file} is damaged: it does not hold one line of text. {remedy}")
    return text


def read_json(file: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none, or if it is broken, as after a full disk."""
    try:
        content = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
