"""How far the text of a page can be trusted, from 0 to 1, and why not further (docs/adr)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from connectors.parsers.text import letters
from retrieval.ports import PageQuality

LIMIT = 0.4
"""Pages below it are recognised (OCR), or refused: their text is never kept."""
_LOST = 0.25
"""Share of characters without a meaning from which on a page cannot be read."""
_UNMAPPED = 0.3
_SURELY = 0.8
_SAMPLES = 5
"""Parts, spread over a text without pages, of which the least plausible decides."""
_SAMPLE_LETTERS = 4_000
PICTURE = "The page holds no text, only pictures."
WRONG_LETTERS = "The letters of its fonts lead to other letters: they follow each other as in no language."
NOT_LAID_OUT = "Its columns and tables could not be made out: its text is in the order of the file."
NOTHING_RECOGNISED = "No text was recognised on the page."
NO_LETTERS = "Its fonts do not say which letters they show."
STRANGE_LETTERS = "Letters follow each other as in no language, in part of the text at least."
_WITHOUT_MEANING = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff\x00-\x08\x0b-\x1f]")


def judge(page: int, text: str, *, unmapped: float = 0.0) -> PageQuality:
    """The quality of a text layer. `unmapped`: the share of its characters whose font leads to no letter."""
    lost, plausible = _lost(text), letters.plausibility(text)
    if lost > _LOST or (unmapped > _UNMAPPED and (plausible is None or plausible < _SURELY)):
        return unreadable(page, NO_LETTERS)
    reasons = [*_reasons(lost), *([WRONG_LETTERS] if plausible is not None and plausible < LIMIT else [])]
    return _quality(page, min(1 - lost, 1.0 if plausible is None else plausible), reasons)


def judge_recognised(page: int, text: str, confidence: float = 1.0) -> PageQuality:
    """The quality of a page that was recognised. `confidence`: of the engine, from 0 to 1, if it tells one."""
    lost, plausible = _lost(text), letters.plausibility(text)
    quality = min(confidence, 1 - lost, 1.0 if plausible is None else plausible)
    reasons = [f"The text recognition is {confidence:.0%} sure of the page."] if confidence < _SURELY else []
    reasons += [*_reasons(lost), *([STRANGE_LETTERS] if plausible is not None and plausible < LIMIT else [])]
    return _quality(page, quality, reasons, recognised=True)


def judge_whole(text: str) -> PageQuality:
    """The quality of a text without pages, such as that of an Office file.

    Of unlikely letters alone it says so, and the text is kept: no font stands between the author's letters and these.
    """
    lost = _lost(text)
    if lost > _LOST:
        return unreadable(None, f"{lost:.0%} of its characters have no meaning.")
    judged = [plausible for part in _parts(text) if (plausible := letters.plausibility(part)) is not None]
    plausible = min(judged, default=1.0)
    reasons = [*_reasons(lost), *([STRANGE_LETTERS] if plausible < LIMIT else [])]
    return PageQuality(None, round(min(1 - lost, plausible), 3), tuple(reasons))


def unreadable(page: int | None, reason: str, *, recognised: bool = False) -> PageQuality:
    """The verdict on a page of which nothing can be read."""
    return PageQuality(page, 0.0, (reason,), unread=True, recognised=recognised)


def _quality(page: int, quality: float, reasons: list[str], *, recognised: bool = False) -> PageQuality:
    return PageQuality(page, round(quality, 3), tuple(reasons), quality < LIMIT, recognised)


def _reasons(lost: float) -> list[str]:
    return [f"{lost:.0%} of its characters have no meaning."] if lost > 0.01 else []


def _lost(text: str) -> float:
    return min(len(_WITHOUT_MEANING.findall(text)) / max(len("".join(text.split())), 1), 1.0)


def _parts(text: str) -> Iterator[str]:
    step = max(len(text) // _SAMPLES, _SAMPLE_LETTERS)
    for start in range(0, len(text), step):
        yield text[start : start + _SAMPLE_LETTERS]
