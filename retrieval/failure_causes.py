"""Causes of failed documents, read from the text of their errors: each calls for a remedy of its own.

Errors are sentences for people, and each names its remedy. The patterns below are those remedies; tests hold them to
the errors that the parsers and scrapers raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import LiteralString

OTHER: LiteralString = "OTHER"
MISSING_PAGE: LiteralString = "The site answers 404: there is no such page."
GONE_PAGE: LiteralString = "The site answers 410: the page is gone."
PATTERNS: Mapping[LiteralString, LiteralString] = {
    "NO_TEXT": "STANDARD_OCR",
    "PASSWORD": "protected by a password",
    "CONNECTION": "authorize (the connection|it|again)|connection is not ACTIVE",
    "PAGE_MISSING": "site answers (404|410)|no page to ingest",
    "NOT_ANSWERING": "cannot be reached|did not answer|not answered|broke off|site answers (429|5..)",
    "UNREADABLE": "[Uu]pload|Kinds that are taken|cannot be read|is damaged|ingest that|No text was recognised",
}
"""Cause to a regular expression of Python and PostgreSQL alike; the first that matches counts."""
CAUSES = (*PATTERNS, OTHER)


def find_cause(error: str | None) -> str | None:
    """Return the cause of a failed document; None without an error."""
    if error is None:
        return None
    return next((cause for cause, pattern in PATTERNS.items() if re.search(pattern, error)), OTHER)


def cause_sql(error: LiteralString) -> LiteralString:
    """Return the same as SQL of a text column, null without an error."""
    cases: LiteralString = " ".join(f"when {error} ~ '{pattern}' then '{cause}'" for cause, pattern in PATTERNS.items())
    return f"(case when {error} is null then null {cases} else '{OTHER}' end)"
