"""Parse query syntax: "a phrase" is required, `-word` and `-"a phrase"` are excluded.

"pump room" locked       passages with the phrase, ranked by all words
pump -red                passages without the word red
what does "fail fast" mean in our code?     a sentence: no restriction
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from retrieval.keywords.word_lists import LANGUAGES_OF

# Limit of phrases, and of exclusions.
MAX_PHRASES: Final = 10
# Words such as `the` or `is` outside quotes that make a query a sentence.
MIN_FUNCTION_WORDS: Final = 2
_QUOTE_PAIRS: Final = {'"': '"', "\u201c": "\u201d", "\u201e": "\u201c\u201d", "\u00ab": "\u00bb", "\u300c": "\u300d"}
_PHRASE_PATTERN: Final = re.compile(
    "(?:(?<=\\s)|^)(-?)("
    + "|".join(f"{opening}([^{opening}{closing}]+)[{closing}]" for opening, closing in _QUOTE_PAIRS.items())
    + ")(?=[\\s,.;:!?)]|$)"
)
_EXCLUSION_PATTERN: Final = re.compile(r"(?:(?<=\s)|^)-([^\W\d_][\w'-]*[^\W_])(?=[\s,.;:!?]|$)")
_WORD_PATTERN: Final = re.compile(r"\w+")
_SENTENCE_NOTE: Final = (
    "The query was read as a sentence, whose quotes and -word require nothing: send the words in question only."
)
SEMANTIC_ONLY_NOTE: Final = "Quotes and -word count in hybrid searches; this one compared meanings."


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """Words, required phrases and exclusions of a query; `note` explains them to users."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    note: str = ""

    @property
    def has_restrictions(self) -> bool:
        return bool(self.phrases or self.excluded)


def parse_query(text: str) -> ParsedQuery:
    """Parse quotes and exclusions. Sentences and queries of exclusions only have none."""
    matches = list(_PHRASE_PATTERN.finditer(text))
    outside = _PHRASE_PATTERN.sub(" ", text)
    excluded = [match[2][1:-1].strip() for match in matches if match[1]] + _EXCLUSION_PATTERN.findall(outside)
    phrases = [match[2][1:-1].strip() for match in matches if not match[1]]
    phrases = [phrase for phrase in dict.fromkeys(phrases) if _WORD_PATTERN.search(phrase)][:MAX_PHRASES]
    excluded = [word for word in dict.fromkeys(excluded) if _WORD_PATTERN.search(word)][:MAX_PHRASES]
    if not (phrases or excluded):
        return ParsedQuery(text)
    words = _EXCLUSION_PATTERN.sub(" ", outside)
    if _is_sentence(words):
        return ParsedQuery(text, note=_SENTENCE_NOTE)
    query_words = " ".join([*phrases, *words.split()])
    if not _WORD_PATTERN.search(query_words):
        return ParsedQuery(text)
    return ParsedQuery(query_words, tuple(phrases), tuple(excluded), _describe(phrases, excluded))


def exclude_only(parsed: ParsedQuery, words: Collection[str]) -> ParsedQuery:
    """Return the query with only these exclusions, and a note about the ignored ones."""
    exclusions = tuple(word for word in parsed.excluded if word in words)
    if exclusions == parsed.excluded:
        return parsed
    ignored = " and ".join(f"\u201c{word}\u201d" for word in parsed.excluded if word not in words)
    ignored_note = f"Most passages have {ignored}, which cannot be excluded."
    description = _describe(list(parsed.phrases), list(exclusions)) if parsed.phrases or exclusions else ""
    return replace(parsed, excluded=exclusions, note=" ".join(filter(None, [description, ignored_note])))


def _is_sentence(words: str) -> bool:
    function_words = [word for word in _WORD_PATTERN.findall(words.lower()) if word in LANGUAGES_OF]
    return len(function_words) >= MIN_FUNCTION_WORDS or words.rstrip().endswith("?")


def _describe(phrases: list[str], excluded: list[str]) -> str:
    required = " and ".join(f"\u201c{phrase}\u201d" for phrase in phrases)
    left_out = " or ".join(f"\u201c{word}\u201d" for word in excluded)
    if phrases and excluded:
        return f"Only passages with {required} and without {left_out} were searched."
    return f"Only passages {'with ' + required if phrases else 'without ' + left_out} were searched."
