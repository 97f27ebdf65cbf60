"""Syntax of queries: a phrase in quotes is required, `-word` and `-"a phrase"` exclude.

"pump room" locked       passages with this phrase, best by all words
pump -red                passages without the word red
what does "fail fast" mean in our code?     a sentence: its quotes require nothing
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from retrieval.keywords.word_lists import LANGUAGES_OF

MAX_PHRASES: Final = 10
"""Phrases and exclusions of a query that count, each."""
MIN_FUNCTION_WORDS: Final = 2
"""Words such as `the`, `what`, `is` beside quotes and exclusions that make a query a sentence."""
_QUOTES: Final = {'"': '"', "\u201c": "\u201d", "\u201e": "\u201c\u201d", "\u00ab": "\u00bb", "\u300c": "\u300d"}
_PHRASE: Final = re.compile(
    "(?:(?<=\\s)|^)(-?)("
    + "|".join(f"{opening}([^{opening}{closing}]+)[{closing}]" for opening, closing in _QUOTES.items())
    + ")(?=[\\s,.;:!?)]|$)"
)
_EXCLUDED: Final = re.compile(r"(?:(?<=\s)|^)-([^\W\d_][\w'-]*[^\W_])(?=[\s,.;:!?]|$)")
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = (
    "The query was read as a sentence, whose quotes and -word require nothing: send the words in question only."
)
BY_MEANING: Final = "Quotes and -word count in hybrid searches; this one compared meanings."


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """Words of a query, phrases that a passage must have, and words and phrases that it must not have.

    `note`: how the query was read, "" if it has no syntax.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    note: str = ""

    @property
    def restricts(self) -> bool:
        """Tell if passages are required or excluded."""
        return bool(self.phrases or self.excluded)


def parse_query(text: str) -> ParsedQuery:
    """Parse the quotes and exclusions of a query; a query of exclusions only, and a sentence, have none."""
    matches = list(_PHRASE.finditer(text))
    outside = _PHRASE.sub(" ", text)
    excluded = [match[2][1:-1].strip() for match in matches if match[1]] + _EXCLUDED.findall(outside)
    phrases = [match[2][1:-1].strip() for match in matches if not match[1]]
    phrases = [phrase for phrase in dict.fromkeys(phrases) if _WORD.search(phrase)][:MAX_PHRASES]
    excluded = [word for word in dict.fromkeys(excluded) if _WORD.search(word)][:MAX_PHRASES]
    if not (phrases or excluded):
        return ParsedQuery(text)
    words = _EXCLUDED.sub(" ", outside)
    if _is_sentence(words):
        return ParsedQuery(text, note=_SENTENCE)
    query_words = " ".join([*phrases, *words.split()])
    if not _WORD.search(query_words):
        return ParsedQuery(text)
    return ParsedQuery(query_words, tuple(phrases), tuple(excluded), _describe(phrases, excluded))


def exclude_only(parsed: ParsedQuery, words: Collection[str]) -> ParsedQuery:
    """Return the query with these of its exclusions, and a note that names the others."""
    kept = tuple(word for word in parsed.excluded if word in words)
    if kept == parsed.excluded:
        return parsed
    ignored = " and ".join(f"\u201c{word}\u201d" for word in parsed.excluded if word not in words)
    ignored_note = f"Most passages have {ignored}, which cannot be excluded."
    description = _describe(list(parsed.phrases), list(kept)) if parsed.phrases or kept else ""
    return replace(parsed, excluded=kept, note=" ".join(filter(None, [description, ignored_note])))


def _is_sentence(words: str) -> bool:
    function_words = [word for word in _WORD.findall(words.lower()) if word in LANGUAGES_OF]
    return len(function_words) >= MIN_FUNCTION_WORDS or words.rstrip().endswith("?")


def _describe(phrases: list[str], excluded: list[str]) -> str:
    required = " and ".join(f"\u201c{phrase}\u201d" for phrase in phrases)
    left_out = " or ".join(f"\u201c{word}\u201d" for word in excluded)
    if phrases and excluded:
        return f"Only passages with {required} and without {left_out} were searched."
    return f"Only passages {'with ' + required if phrases else 'without ' + left_out} were searched."
