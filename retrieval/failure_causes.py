"""Causes of failed documents, derived from their error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import LiteralString

OTHER_CAUSE: LiteralString = "OTHER"
MISSING_PAGE: LiteralString = "The site answers 404: there is no such page."
GONE_PAGE: LiteralString = "The site answers 410: the page is gone."
# Each error names its remedy, and the remedy identifies the cause. First match wins; valid in Python and PostgreSQL.
CAUSE_PATTERNS: Mapping[LiteralString, LiteralString] = {
    "NO_TEXT": "STANDARD_OCR",
    "PASSWORD": "protected by a password",
    "CONNECTION": "authorize (the connection|it|again)|connection is not ACTIVE",
    "PAGE_MISSING": "site answers (404|410)|no page to ingest",
    "ADDRESS": "(port|host) of the address|[Tt]he address (is|has|holds|names|leads|cannot be read)"
    "|addresses are fetched|host name cannot be read|host is a number|certificate is not valid",
    "NOT_ANSWERING": "cannot be (reached|looked up)|did not answer|not answered|broke off|site answers (429|5..)",
    "UNREADABLE": "[Uu]pload|Kinds that are taken|cannot be read|is damaged|ingest that|No text was recognised",
}
CAUSE_NAMES = (*CAUSE_PATTERNS, OTHER_CAUSE)


def find_cause(error: str | None) -> str | None:
    """Return the cause of an error message; None without an error."""
    if error is None:
        return None
    return next((cause for cause, pattern in CAUSE_PATTERNS.items() if re.search(pattern, error)), OTHER_CAUSE)


def cause_sql(error: LiteralString) -> LiteralString:
    """Return the cause as SQL on a text column."""
    cases: LiteralString = " ".join(
        f"when {error} ~ '{pattern}' then '{cause}'" for cause, pattern in CAUSE_PATTERNS.items()
    )
    return f"(case when {error} is null then null {cases} else '{OTHER_CAUSE}' end)"
