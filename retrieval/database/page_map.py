"""Whether the page of each chunk of a document is known."""

from __future__ import annotations

from typing import LiteralString

PAGE_MAP = "pageMap"
"""Property of a document whose pages were placed while it was parsed; its value is how. Earlier ones were guessed."""

PLACED: LiteralString = "d.properties ? 'pageMap'"
"""Whether the pages of the document `d` and of its chunks are known."""
