"""Language detection, and the text search configuration of PostgreSQL for each language.

Detection uses the script, then letters that distinguish neighbouring languages, then function words, which are a third
or a quarter of a text. A text that is too short has no language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from string import ascii_letters
from typing import Final

from retrieval.keywords import word_lists

SIMPLE: Final = "simple"
CONFIGURATIONS: Final[Mapping[str, str]] = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch",
    "en": "english", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
    "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""By ISO 639-1: those that PostgreSQL has from version 14 on. Every other language is read by `simple`."""
ISO: Final = word_lists.ISO_639_1
_THREE: Final[Mapping[str, str]] = {
    "ara": "ar", "hye": "hy", "eus": "eu", "cat": "ca", "dan": "da", "nld": "nl", "eng": "en", "fin": "fi",
    "fra": "fr", "deu": "de", "ell": "el", "hin": "hi", "hun": "hu", "ind": "id", "gle": "ga", "ita": "it",
    "lit": "lt", "nep": "ne", "nor": "no", "nob": "nb", "nno": "nn", "por": "pt", "ron": "ro", "rus": "ru",
    "srp": "sr", "spa": "es", "swe": "sv", "tam": "ta", "tur": "tr", "yid": "yi", "cmn": "zh", "jpn": "ja",
    "kor": "ko", "tha": "th", "vie": "vi", "pol": "pl", "ces": "cs", "slk": "sk", "slv": "sl", "hrv": "hr",
    "ukr": "uk", "bul": "bg", "heb": "he", "pes": "fa", "urd": "ur", "est": "et", "lav": "lv", "epo": "eo",
    "bel": "be", "mkd": "mk", "afr": "af", "ben": "bn", "tel": "te", "mar": "mr", "guj": "gu", "kan": "kn",
    "mal": "ml", "pan": "pa", "lat": "la", "kat": "ka", "aze": "az", "uzb": "uz", "tuk": "tk", "tgl": "tl",
    "jav": "jv", "zul": "zu", "sna": "sn", "aka": "ak", "amh": "am", "khm": "km", "mya": "my", "sin": "si", "ori": "or",
}  # fmt: skip
_SAMPLE: Final = 4_000
"""Characters that are looked at."""
_SCRIPTS: Final = {
    "kana": re.compile("[\u3041-\u30ff]"),
    "hangul": re.compile("[\uac00-\ud7a3\u1100-\u11ff]"),
    "han": re.compile("[\u3400-\u9fff\uf900-\ufaff]"),
    "th": re.compile("[\u0e01-\u0e5b]"),
    "cyrillic": re.compile("[\u0400-\u04ff]"),
    "el": re.compile("[\u0370-\u03ff]"),
    "arabic": re.compile("[\u0600-\u06ff]"),
    "hebrew": re.compile("[\u05d0-\u05f2]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "ta": re.compile("[\u0b80-\u0bff]"),
    "hy": re.compile("[\u0530-\u058f]"),
    "latin": re.compile("[\u00c0-\u024f]"),
}
"""One character each, none of ASCII: its letters are counted apart."""
_ASCII: Final = re.compile("[\x00-\x7f]+")
_NO_LETTERS: Final = bytes(sorted({*range(128)} - {*ascii_letters.encode()}))
_LETTERS: Final = {
    "cyrillic": (("uk", "[іїєґ]"), ("sr", "[јљњћђџ]"), ("be", "[ў]"), ("ru", "[ыэё]"), ("bg", "ъ")),
    "arabic": (("ur", "[ٹڈڑںے]"), ("fa", "[پچژگ]")),
    "hebrew": (("yi", r"\b(?:און|דער|די|איז)\b"),),
    "devanagari": (("ne", "छ|हुन्छ|गर्न"),),
}
_LATIN_LETTERS: Final = (
    ("pl", "[łńśźż]"), ("tr", "[ğı]"), ("cs", "[ěřů]"), ("hu", "[őű]"), ("ro", "[țșă]"), ("lt", "[ėųį]"),
    ("lv", "[āēīņļ]"), ("is", "[þð]"), ("es", "[ñ¿¡]"), ("pt", "[ãõ]"), ("de", "ß"), ("da", "[æø]"), ("sv", "å"),
)  # fmt: skip
"""Letters that tell a language of which too few function words are there, the first of a language that others share."""
_NEIGHBOURS: Final = frozenset({"da", "no", "nb", "nn"})
"""Languages so near that function words do not tell them apart; either stemmer reads both."""
_USUAL: Final = {"cyrillic": "ru", "arabic": "ar", "hebrew": "he", "devanagari": "hi", "kana": "ja", "hangul": "ko"}
_WORD: Final = re.compile(r"[^\W\d_]+")
_LANGUAGES_OF: Final = word_lists.LANGUAGES_OF
_LEAST: Final = 2
"""Function words that a text must have for its language to be told,"""
_SHARE: Final = 0.1
"""of all its words,"""
_LEAD: Final = 1.15
"""and times as many as those of the next language."""


def detect(text: str) -> str | None:
    """Detect the language of a text as ISO 639-1; None if it is too short or ambiguous."""
    sample = text[:_SAMPLE]
    beyond = "" if sample.isascii() else _ASCII.sub("", sample)
    counts = {name: len(pattern.findall(beyond)) if beyond else 0 for name, pattern in _SCRIPTS.items()}
    counts["latin"] += len(sample.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    letters = sum(counts.values())
    if not letters:
        return None
    if 3 * (counts["kana"] + counts["hangul"] + counts["han"]) > letters:
        return max(("ja", counts["kana"] * 4), ("ko", counts["hangul"]), ("zh", counts["han"]), key=lambda c: c[1])[0]
    script = max(counts, key=lambda name: counts[name])
    return _by_words(sample) if script == "latin" else _by_letters(sample.lower(), script, counts[script])


def _by_letters(sample: str, script: str, letters: int) -> str | None:
    matches = (
        language for language, pattern in _LETTERS.get(script, ()) if len(re.findall(pattern, sample)) * 50 > letters
    )
    return next(matches, _USUAL.get(script, script if len(script) == 2 else None))


def _by_words(sample: str) -> str | None:
    words = _WORD.findall(sample.lower()) if sample.isascii() else [word.lower() for word in _WORD.findall(sample)]
    counts: Counter[str] = Counter()
    for word, times in Counter(words).items():
        for language in _LANGUAGES_OF.get(word, ()):
            counts[language] += times
    ranked = counts.most_common(3)
    if not ranked or ranked[0][1] < max(_LEAST, _SHARE * len(words)):
        return _by_latin_letters(sample)
    first = ranked[0]
    rivals = [rival for rival in ranked[1:] if not _NEIGHBOURS.issuperset((first[0], rival[0]))]
    if rivals and first[1] < _LEAD * rivals[0][1]:
        return _by_latin_letters(sample)
    return first[0]


def _by_latin_letters(sample: str) -> str | None:
    """Return the language whose letters are one in fifty of the text, at least."""
    if sample.isascii():
        return None
    lower = sample.lower()
    return next(
        (language for language, letters in _LATIN_LETTERS if 50 * len(re.findall(letters, lower)) >= len(lower)), None
    )


def code(said: str) -> str | None:
    """Return the ISO 639-1 code of a declared language: `de`, `de-DE`, `deu`. None for anything else."""
    bare = re.split(r"[-_]", said.strip().lower(), maxsplit=1)[0]
    return bare if bare in ISO else _THREE.get(bare)


def configuration(language: str | None, otherwise: str) -> str:
    """Return the text search configuration of a language by ISO 639-1; `otherwise` if there is none."""
    return otherwise if language is None else CONFIGURATIONS.get(language, SIMPLE)


def fixed(name: str) -> str | None:
    """The configuration that a client means by PostgreSQL's name or by ISO 639-1; None if it is neither."""
    bare = name.strip().lower()
    if bare == SIMPLE or bare in CONFIGURATIONS.values():
        return bare
    return CONFIGURATIONS.get(bare, SIMPLE) if bare in ISO else None
