"""How far the text of a page can be trusted, from 0 to 1, and why not further (docs/adr)."""

from __future__ import annotations

from connectors.parsers.text import letters
from retrieval.ports import PageQuality

LIMIT = 0.4
"""Pages below it are recognised (OCR), or refused: their text is never kept."""
_LOST = 0.25
"""Share of characters without a meaning from which on a page cannot be read."""
_UNMAPPED = 0.3
_SURELY = 0.8
PICTURE = "The page holds no text, only pictures."
WRONG_LETTERS = "The letters of its fonts lead to other letters: they follow each other as in no language."
NOT_LAID_OUT = "Its columns and tables could not be made out: its text is in the order of the file."
NO_LETTERS = "Its fonts do not say which letters they show."


def judge(page: int, text: str, *, unmapped: float = 0.0) -> PageQuality:
    """The quality of a text layer. `unmapped`: the share of its characters whose font leads to no letter."""
    visible = [character for character in text if not character.isspace()]
    lost = sum(map(_is_lost, visible)) / max(len(visible), 1)
    plausible = letters.plausibility(text)
    if lost > _LOST or (unmapped > _UNMAPPED and (plausible is None or plausible < _SURELY)):
        return PageQuality(page, 0.0, (NO_LETTERS,))
    reasons = [f"{lost:.0%} of its characters have no meaning."] if lost > 0.01 else []
    if plausible is not None and plausible < LIMIT:
        reasons.append(WRONG_LETTERS)
    return PageQuality(page, round(min(1 - lost, 1.0 if plausible is None else plausible), 3), tuple(reasons))


def _is_lost(character: str) -> bool:
    return character == "\ufffd" or "\ue000" <= character <= "\uf8ff" or character < " " or character >= "\U000f0000"
