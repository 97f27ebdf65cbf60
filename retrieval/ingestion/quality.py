"""The quality of a document's text: that of its lowest page, and the pages that a person had better look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from retrieval.ports import PageQuality

TEXT_QUALITY: Final = "textQuality"
PAGES_TO_CHECK: Final = "pagesToCheck"
_CHECK: Final = 0.8
_MOST: Final = 50
"""Pages that a document lists; the lowest ones where there are more."""


def properties(qualities: Sequence[PageQuality]) -> dict[str, Any]:
    """The properties of a document with these pages; none where nothing was judged."""
    if not qualities:
        return {}
    low = sorted(
        (quality for quality in qualities if quality.quality < _CHECK), key=lambda page_quality: page_quality.quality
    )[:_MOST]
    pages = [
        {
            "page": page_quality.page,
            "quality": page_quality.quality,
            "unread": page_quality.unread,
            "reasons": list(page_quality.reasons),
        }
        for page_quality in sorted(low, key=lambda page_quality: page_quality.page or 0)
    ]
    lowest = min(quality.quality for quality in qualities)
    return {TEXT_QUALITY: lowest} | ({PAGES_TO_CHECK: pages} if pages else {})
