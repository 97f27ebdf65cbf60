"""Other people's text, shown as text: never as Markdown, HTML or a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """For a place that reads Markdown: every mark escaped, line breaks as spaces."""
    return _MARKUP.sub(r"\\\1", " ".join(str(text).split()))


def code(text: str) -> str:
    """For a place that reads Markdown: a name as it is, no address of it a link."""
    return "`" + " ".join(str(text).replace("`", "'").split()) + "`" if str(text).strip() else ""


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """A CSV file that no spreadsheet runs: what would start a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(columns), extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(row.get(name)) for name in columns})
    return out.getvalue().encode("utf-8-sig")


def _cell(value: Any) -> Any:
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) and not isinstance(value, int | float) else text
