"""Variants of words with changes before endings, unknown to stemmers.

sopimus, sopimukse-  automaatti, automaati-  rum, rummet      stems of Finnish and Nordic words
החדר, בחדרי, וחדר                                             prefixes of Hebrew
نافذة, نوافذ; عقد, عقود                                       consonants of Arabic, common to singular and plural
reparación, reparaciones; estação, estações                   endings whose stemmers need accents, by their plural
"""

# ruff: noqa: RUF001 - letters that look like others are the subject

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

NORDIC_LANGUAGES: Final = frozenset({"swedish", "danish", "norwegian"})
_VOWELS: Final = "aeiouy"
# Finnish consonants before the last vowel: strong and weak grade.
_WEAK_GRADES: Final = {
    "kk": "k", "pp": "p", "tt": "t", "nk": "ng", "nt": "nn", "lt": "ll", "rt": "rr", "mp": "mm", "ht": "hd", "rp": "rv",
}  # fmt: skip
_FINNISH_ENDINGS: Final = {
    "nen": ("s",), "us": ("uks", "ud"), "ys": ("yks", "yd"), "os": ("oks",), "es": ("eks",), "in": ("im",),
    "uus": ("uud",), "yys": ("yyd",),
}  # fmt: skip
_DOUBLED_CONSONANTS: Final = re.compile(rf"(?<![{_VOWELS}])[{_VOWELS}][mnlstkpbdgr]\Z")
# Vowels that fall out before endings: terem, termek; konec, koncem; orzeł, orła.
_FLEETING_VOWEL: Final = re.compile("(?<=[^aeiouyаеиоуіяює])[eoаео]([^aeiouyаеиоуіяює])\\Z")
_HEBREW_PREFIXES: Final = ("ה", "ב", "ל", "מ", "ו", "ש", "כ", "וה", "מה", "שה", "בה", "לה", "וב", "ול", "כש", "ומ")
_HEBREW_ENDING: Final = re.compile("(?:ים|ות|ית|ה|ת)\\Z".translate({ord("ם"): "מ"}))
_HEBREW_WORD: Final = re.compile("[א-ת]{3,}\\Z")
_ARABIC_WORD: Final = re.compile("[\u0621-\u064a]{3,}")
_ARABIC_PREFIX: Final = re.compile("(?:[وفبك]{0,2}ال|لل)(?=...)|و(?=و)")
_ARABIC_PREPOSITION: Final = re.compile("[وفبكل](?=....)")
_ARABIC_ENDING: Final = re.compile("(?<=...)(?:ات|ون|ين|ان|هما|هم|هن|ها|نا|كم|ه|ي)\\Z")
# Respelled endings by configuration, in lower case without accents.
_RESPELLED: Final[Mapping[str, tuple[tuple[re.Pattern[str], str], ...]]] = {
    "spanish": (
        (re.compile(r"(?<=\w\wi)on\b", re.IGNORECASE), "ones"),
        (re.compile(r"(?<=\w[aeiou])z\b", re.IGNORECASE), "c"),
    ),
    "portuguese": ((re.compile(r"(?<=\w\w)oes\b", re.IGNORECASE), "ao"),),
}


def respell_endings(text: str, configuration: str) -> str:
    """Respell endings of a text without accents, for equal stems of singular and plural."""
    for pattern, ending in _RESPELLED.get(configuration, ()):
        text = pattern.sub(ending, text)
    return text


def list_compound_stems(word: str, configurations: Collection[str]) -> set[str]:
    """Return stems of a word within Finnish or Nordic compounds, of at least three letters."""
    is_nordic = not NORDIC_LANGUAGES.isdisjoint(configurations)
    stems = {word + word[-1]} if is_nordic and _DOUBLED_CONSONANTS.search(word) else set()
    if "finnish" not in configurations:
        return stems
    for ending, replacements in _FINNISH_ENDINGS.items():
        if word.endswith(ending):
            stems.update(word[: -len(ending)] + replacement for replacement in replacements)
    if word[-1] in _VOWELS:
        stem = word[:-1]
        stems.add(stem)
        if stem[-2:] in _WEAK_GRADES:
            stems.add(stem[:-2] + _WEAK_GRADES[stem[-2:]])
    return {stem for stem in stems if len(stem) >= 3}


def list_inflected_starts(word: str) -> Iterator[tuple[str, str]]:
    """Yield words as texts may begin them, with prefixes, and their letters before endings."""
    if (shortened := _FLEETING_VOWEL.sub(r"\1", word)) != word and len(shortened) >= 4:
        yield shortened, shortened
    if _HEBREW_WORD.match(word):
        stem = _HEBREW_ENDING.sub("", word)
        stem = stem if len(stem) >= 3 else word
        yield word, stem
        for prefix in _HEBREW_PREFIXES:
            yield prefix + word, prefix + stem
            if word.startswith(prefix) and _HEBREW_WORD.match(word[len(prefix) :]):
                yield word[len(prefix) :], word[len(prefix) :]


def list_arabic_roots(text: str, *, is_query: bool) -> Iterator[str]:
    """Yield the consonants of Arabic words, as read with and without a preposition in texts."""
    for word in _ARABIC_WORD.findall(text):
        bare = _ARABIC_PREFIX.sub("", word, count=1) if _ARABIC_PREFIX.match(word) else word
        yield _root(bare)
        if not is_query and bare == word and _ARABIC_PREPOSITION.match(word):
            yield _root(word[1:])


def _root(word: str) -> str:
    stem = _ARABIC_ENDING.sub("", word)
    shorter = (re.sub("[اوي]", "", stem), stem[:1] + re.sub("[اوي]", "", stem[1:]), stem)
    return next((form for form in shorter if len(form) >= 3), word)
