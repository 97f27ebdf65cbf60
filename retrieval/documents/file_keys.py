"""Keys of stored files: characters that every file store takes, no path traversal."""

from __future__ import annotations

import re

from retrieval.errors import Fatal

_KEY = re.compile(r"(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)*")


def checked(key: str) -> str:
    """The key itself; Fatal for one that no file store takes."""
    if not _KEY.fullmatch(key):
        raise Fatal("A file key may hold only letters, digits, hyphens, underscores and dots between slashes.")
    return key
