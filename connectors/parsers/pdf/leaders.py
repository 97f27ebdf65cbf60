"""Dot leaders of contents and indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DOTS = "[.\u00b7\u2024\u2025\u2026\u22ef\u30fb]"
_LEADER_PATTERN = re.compile(rf"[ \t\xa0]*(?:{_DOTS}[ \t\xa0]?){{5,}}[ \t\xa0]*")
# Minimum share of a page's lines with a leader, and minimum number of them.
_CONTENTS_SHARE, _MIN_CONTENTS_LINES = 0.4, 4
_LEADER = " \u2026 "
_CONTENTS_TITLE = re.compile(
    r"(?:table of )?contents|(?:inhalts|abbildungs|tabellen)\w*verzeichnis|inhalt|table des mati\u00e8res|sommaire"
    r"|sum\u00e1rio|\u00edndice|indice|inhoud(?:sopgave)?|spis tre\u015bci|inneh\u00e5ll|indhold"
    r"|\u76ee\u6b21|\u76ee\u5f55|\u0441\u043e\u0434\u0435\u0440\u0436\u0430\u043d\u0438\u0435",
    re.IGNORECASE,
)
# PDFium drops the space before a number that stands apart.
_PAGE_NUMBER_LINE = re.compile(r"(?<=[^\W\d_])\n?(?=\d{1,4}$)", re.MULTILINE)
_ENTRY_PATTERN = re.compile(r"[^\W\d_].* (\d{1,4})$")


def shorten_leaders(text: str) -> str:
    """Replace each row of five or more dots by one ellipsis."""
    return _LEADER_PATTERN.sub(_LEADER, text)


def read_contents(text: str) -> str:
    """Return the lines of a page of contents, with many shortened leaders or rising numbers below a title; else ""."""
    text = _PAGE_NUMBER_LINE.sub(" ", text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    count = sum(_LEADER in f"{line} " for line in lines) or _count_entries(lines)
    return text if count >= max(_MIN_CONTENTS_LINES, _CONTENTS_SHARE * len(lines)) else ""


def _count_entries(lines: Sequence[str]) -> int:
    """Return the number of lines below the title that end with rising page numbers."""
    title = next((at for at, line in enumerate(lines, 1) if _CONTENTS_TITLE.fullmatch(line)), len(lines))
    count, last = 0, 0
    for line in lines[title:]:
        match = _ENTRY_PATTERN.search(line)
        if not match or int(match[1]) < last:
            break
        count, last = count + 1, int(match[1])
    return count
