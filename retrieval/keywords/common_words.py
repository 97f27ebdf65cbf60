"""Dictionaries of common words by text search configuration."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from retrieval.keywords import languages, word_lists

_LISTED_LANGUAGES: Final = frozenset({"ar", "de", "en", "es", "eu", "fr", "it", "nl", "pt", "ru"})
"""Languages of `spellchecker` that PostgreSQL has a configuration for."""
_CODES: Final = {name: code for code, name in languages.CONFIGURATIONS.items() if code in _LISTED_LANGUAGES}
_STOPLISTS: Final = {"norwegian": "Norwegian_Bokmal"}
"""Lists of `justext` that have another name than the configuration."""


def is_common(word: str, configuration: str) -> bool:
    """Check a word in lower case against the dictionary of a text search configuration."""
    if configuration == languages.SIMPLE:
        return False
    return f"\n{word}\n".encode() in _read_words(configuration)


@lru_cache(maxsize=len(languages.CONFIGURATIONS))
def _read_words(configuration: str) -> bytes:
    # All languages stay: with fewer, a search amid nine languages read a dictionary anew for each of its words.
    # One line a word: a set of 340,000 German words takes 30 MB, these bytes 4, and a look-up a millisecond.
    words = word_lists.STOP_WORDS.get(configuration, frozenset()) | _read_dictionary(configuration)
    return "\n".join(["", *words, ""]).encode()


def _read_dictionary(configuration: str) -> frozenset[str]:
    if configuration in _CODES:
        from spellchecker import SpellChecker

        return frozenset(SpellChecker(language=_CODES[configuration]).word_frequency.words())
    import justext

    name = _STOPLISTS.get(configuration, configuration.capitalize())
    return frozenset(map(str.lower, justext.get_stoplist(name))) if name in justext.get_stoplists() else frozenset()
