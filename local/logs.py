"""The log of each role: a file in the home, bounded, and its last lines when something dies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import BinaryIO

_LIMIT = 20 * 1024 * 1024
_TAIL = 16 * 1024


def path(home: Path, role: str) -> Path:
    return home / "logs" / f"{role}.log"


def open_for(home: Path, role: str) -> BinaryIO:
    """For appending; a file that has grown is put aside as `.1` first."""
    file = path(home, role)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size > _LIMIT:
        file.replace(file.with_suffix(".log.1"))
    return file.open("ab")


def bound(home: Path) -> None:
    """Copy each log that has grown past 20 MB aside and empty it in place, for its writer holds it open."""
    for file in (home / "logs").glob("*.log"):
        if file.stat().st_size > _LIMIT:
            shutil.copyfile(file, file.with_suffix(".log.1"))
            with file.open("r+b") as opened:
                opened.truncate(0)


def tail(home: Path, role: str, *, since: int = 0, lines: int = 8) -> str:
    """The last lines written after offset `since`, indented."""
    file = path(home, role)
    if not file.exists():
        return ""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(since if since <= size else 0, size - _TAIL))
        text = opened.read().decode(errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
