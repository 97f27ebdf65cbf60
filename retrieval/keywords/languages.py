"""Detect languages by script, distinctive letters and function words, and choose text search configurations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from string import ascii_letters
from typing import Final

from retrieval.keywords import word_lists

SIMPLE_CONFIGURATION: Final = "simple"
# Configurations of PostgreSQL 14 by ISO 639-1; other languages use `simple`.
LANGUAGE_CONFIGURATIONS: Final[Mapping[str, str]] = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch",
    "en": "english", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
    "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
ISO_CODES: Final = word_lists.ISO_639_1
_ISO_639_3: Final[Mapping[str, str]] = {
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
# Characters used for detection.
_SAMPLE_CHARACTERS: Final = 4_000
# Letters by script, outside ASCII.
_SCRIPT_PATTERNS: Final = {
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
_ASCII_PATTERN: Final = re.compile("[\x00-\x7f]+")
_NO_LETTERS: Final = bytes(sorted({*range(128)} - {*ascii_letters.encode()}))
_SCRIPT_LETTERS: Final = {
    "cyrillic": (("uk", "[іїєґ]"), ("sr", "[јљњћђџ]"), ("be", "[ў]"), ("ru", "[ыэё]"), ("bg", "ъ")),
    "arabic": (("ur", "[ٹڈڑںے]"), ("fa", "[پچژگ]")),
    "hebrew": (("yi", r"\b(?:און|דער|די|איז)\b"),),
    "devanagari": (("ne", "छ|हुन्छ|गर्न"),),
}
# Distinctive letters for texts with few function words, in order of precedence.
_LATIN_LETTERS: Final = (
    ("pl", "[łńśźż]"), ("ro", "[țșăţ]"), ("tr", "[ğış]"), ("cs", "[ěřů]"), ("hu", "[őű]"), ("lt", "[ėųį]"),
    ("lv", "[āēīņļ]"), ("is", "[þð]"), ("es", "[ñ¿¡]"), ("pt", "[ãõ]"), ("de", "ß"), ("da", "[æø]"), ("sv", "å"),
)  # fmt: skip
# Too similar for function words; either stemmer works.
_SIMILAR_LANGUAGES: Final = frozenset({"da", "no", "nb", "nn"})
_DEFAULT_LANGUAGES: Final = {
    "cyrillic": "ru",
    "arabic": "ar",
    "hebrew": "he",
    "devanagari": "hi",
    "kana": "ja",
    "hangul": "ko",
}
_WORD_PATTERN: Final = re.compile(r"[^\W\d_]+")
_LANGUAGES_OF: Final = word_lists.LANGUAGES_OF
# A language is detected with at least this number of function words.
_MIN_FUNCTION_WORDS: Final = 2
# Least share of function words among all words.
_MIN_SHARE: Final = 0.1
# Least ratio of function words to those of the next language.
_MIN_LEAD: Final = 1.15


def detect_language(text: str) -> str | None:
    """Detect the language as ISO 639-1; None if short or ambiguous."""
    sample = text[:_SAMPLE_CHARACTERS]
    beyond = "" if sample.isascii() else _ASCII_PATTERN.sub("", sample)
    counts = {name: len(pattern.findall(beyond)) if beyond else 0 for name, pattern in _SCRIPT_PATTERNS.items()}
    counts["latin"] += len(sample.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    letters = sum(counts.values())
    if not letters:
        return None
    if 3 * (counts["kana"] + counts["hangul"] + counts["han"]) > letters:
        return max(("ja", counts["kana"] * 4), ("ko", counts["hangul"]), ("zh", counts["han"]), key=lambda c: c[1])[0]
    script = max(counts, key=lambda name: counts[name])
    return _detect_by_words(sample) if script == "latin" else _detect_by_letters(sample.lower(), script, counts[script])


def _detect_by_letters(sample: str, script: str, letters: int) -> str | None:
    matches = (
        language
        for language, pattern in _SCRIPT_LETTERS.get(script, ())
        if len(re.findall(pattern, sample)) * 50 > letters
    )
    return next(matches, _DEFAULT_LANGUAGES.get(script, script if len(script) == 2 else None))


def _detect_by_words(sample: str) -> str | None:
    words = (
        _WORD_PATTERN.findall(sample.lower())
        if sample.isascii()
        else [word.lower() for word in _WORD_PATTERN.findall(sample)]
    )
    counts: Counter[str] = Counter()
    for word, times in Counter(words).items():
        for language in _LANGUAGES_OF.get(word, ()):
            counts[language] += times
    ranked = counts.most_common(3)
    if not ranked or ranked[0][1] < max(_MIN_FUNCTION_WORDS, _MIN_SHARE * len(words)):
        return _detect_by_latin_letters(sample)
    first = ranked[0]
    rivals = [rival for rival in ranked[1:] if not _SIMILAR_LANGUAGES.issuperset((first[0], rival[0]))]
    if rivals and first[1] < _MIN_LEAD * rivals[0][1]:
        return _detect_by_latin_letters(sample)
    return first[0]


def _detect_by_latin_letters(sample: str) -> str | None:
    """Return the language with at least 2 % distinctive letters."""
    if sample.isascii():
        return None
    lower = sample.lower()
    return next(
        (language for language, letters in _LATIN_LETTERS if 50 * len(re.findall(letters, lower)) >= len(lower)), None
    )


def is_ambiguous(language: str | None) -> bool:
    """Check for the language of a script without distinctive letters: a word of it may be of another."""
    return language in _DEFAULT_LANGUAGES.values()


def parse_language(declared: str) -> str | None:
    """Parse a declared language (`de`, `de-DE`, `deu`) as ISO 639-1; None if unknown."""
    bare = re.split(r"[-_]", declared.strip().lower(), maxsplit=1)[0]
    return bare if bare in ISO_CODES else _ISO_639_3.get(bare)


def choose_configuration(language: str | None, default: str) -> str:
    """Return the configuration of a language; `default` for None."""
    return default if language is None else LANGUAGE_CONFIGURATIONS.get(language, SIMPLE_CONFIGURATION)


def parse_configuration(name: str) -> str | None:
    """Return the configuration by PostgreSQL's name or ISO 639-1; None if unknown."""
    bare = name.strip().lower()
    if bare == SIMPLE_CONFIGURATION or bare in LANGUAGE_CONFIGURATIONS.values():
        return bare
    return LANGUAGE_CONFIGURATIONS.get(bare, SIMPLE_CONFIGURATION) if bare in ISO_CODES else None
