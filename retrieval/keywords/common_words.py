"""Dictionaries of common words by text search configuration."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from retrieval.keywords import languages, word_lists

# Languages of `spellchecker` with a configuration in PostgreSQL.
_LISTED_LANGUAGES: Final = frozenset({"ar", "de", "en", "es", "eu", "fr", "it", "nl", "pt", "ru"})
_LANGUAGE_CODES: Final = {
    name: code for code, name in languages.LANGUAGE_CONFIGURATIONS.items() if code in _LISTED_LANGUAGES
}
# Deviating names of lists in `justext`.
_STOPLIST_NAMES: Final = {"norwegian": "Norwegian_Bokmal"}


def is_common(word: str, configuration: str) -> bool:
    """Check a lower-case word against the dictionary of a configuration."""
    if configuration == languages.SIMPLE_CONFIGURATION:
        return False
    return f"\n{word}\n".encode() in _read_words(configuration)


@lru_cache(maxsize=len(languages.LANGUAGE_CONFIGURATIONS))
def _read_words(configuration: str) -> bytes:
    # A smaller cache made searches in nine languages reload a dictionary per word.
    # 340,000 German words take 30 MB as a set and 4 MB as lines; a lookup takes a millisecond.
    words = word_lists.STOP_WORDS.get(configuration, frozenset()) | _read_dictionary(configuration)
    return "\n".join(["", *words, ""]).encode()


def _read_dictionary(configuration: str) -> frozenset[str]:
    if configuration in _LANGUAGE_CODES:
        from spellchecker import SpellChecker

        return frozenset(SpellChecker(language=_LANGUAGE_CODES[configuration]).word_frequency.words())
    import justext

    name = _STOPLIST_NAMES.get(configuration, configuration.capitalize())
    return frozenset(map(str.lower, justext.get_stoplist(name))) if name in justext.get_stoplists() else frozenset()
