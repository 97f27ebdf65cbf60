"""The language of a text, and how expected its letter sequences are, by word lists of a hundred languages (jusText)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

FEWEST = 80
"""Letters, in words of three or more, that a judgement takes."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_ACCENTS = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u200c\u200d]")
_LISTED = 400
"""Words that are taken of each list: they are sorted by frequency."""
_UNSEEN = 0.1
_ALPHABET = 30
_ALIKE, _UNLIKE = -4.0, -6.0
"""Mean log2 of the probability of a letter after the one before: running text is above, wrong letters are below."""
_FEW_LETTERS = 10
_EVEN = 1.1
"""How many times likelier than of random ones two letters are the same: 1.3 in most languages, and in ciphers."""
_SAMPLE = 20_000
_HITS = 0.1
_CODES = {
    "Arabic": "ar", "Belarusian": "be", "Bulgarian": "bg", "Catalan": "ca", "Croatian": "hr", "Czech": "cs",
    "Danish": "da", "Dutch": "nl", "English": "en", "Estonian": "et", "Finnish": "fi", "French": "fr", "German": "de",
    "Greek": "el", "Hebrew": "he", "Hindi": "hi", "Hungarian": "hu", "Indonesian": "id", "Italian": "it",
    "Korean": "ko", "Latvian": "lv", "Lithuanian": "lt", "Norwegian_Bokmal": "nb", "Persian": "fa", "Polish": "pl",
    "Portuguese": "pt", "Romanian": "ro", "Russian": "ru", "Serbian": "sr", "Slovak": "sk", "Slovenian": "sl",
    "Spanish": "es", "Swedish": "sv", "Turkish": "tr", "Ukrainian": "uk", "Urdu": "ur", "Vietnamese": "vi",
    "Welsh": "cy", "Basque": "eu", "Galician": "gl", "Icelandic": "is", "Irish": "ga", "Bengali": "bn", "Tamil": "ta",
}  # fmt: skip
_BY_LETTERS = (("ja", "\u3040", "\u30ff", 0.1), ("zh", "\u4e00", "\u9fff", 0.3), ("th", "\u0e00", "\u0e7f", 0.3))
"""Languages without spaces: the range of their letters and the share of these."""


def plausibility(text: str) -> float | None:
    """From 0, letters that follow each other as in no language, to 1, as in running text.

    None where nothing can be said: too few letters, a script without a list, a sequence of few letters such as a
    genome, or random ones such as keys. Languages without a list resemble those that have one; a cipher resembles none.
    """
    solid = " ".join(_WORD.findall(_folded(text[:_SAMPLE])))
    likely, firsts = _model()
    pairs = {pair: count for pair, count in Counter(pairwise(solid)).items() if pair[0] in firsts and pair[0] != " "}
    letters: Counter[str] = Counter()
    for (first, _), count in pairs.items():
        letters[first] += count
    total = letters.total()
    if total < FEWEST or len(letters) < _FEW_LETTERS or _is_random(letters):
        return None
    mean = sum(count * likely.get(pair, firsts[pair[0]]) for pair, count in pairs.items()) / total
    return min(max((mean - _UNLIKE) / (_ALIKE - _UNLIKE), 0.0), 1.0)


def language(text: str) -> str:
    """The ISO 639-1 code of the language whose frequent words the text holds, "" if it holds too few."""
    sample = text[:_SAMPLE]
    visible = sum(map(str.isalpha, sample)) or 1
    for code, first, last, share in _BY_LETTERS:
        if sum(first <= letter <= last for letter in sample) > share * visible:
            return code
    words = Counter(re.findall(r"[^\W\d_]{2,}", sample.lower()))
    hits = Counter[str]()
    for word, count in words.items():
        for name in _stop_words().get(word, ()):
            hits[name] += count
    best = max(_CODES, key=lambda name: hits[name])
    return _CODES[best] if hits[best] > max(2, _HITS * words.total()) else ""


def _folded(text: str) -> str:
    """Without case and accents."""
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text.lower()))


def _is_random(letters: Counter[str]) -> bool:
    count = letters.total()
    same = sum(n * (n - 1) for n in letters.values()) / (count * (count - 1))
    return same * len(letters) < _EVEN


@lru_cache(maxsize=1)
def _lists() -> dict[str, list[str]]:
    spec = find_spec("justext")  # importing it would load an HTML parser
    folders = (spec.submodule_search_locations or []) if spec else []
    listed = sorted(file for folder in folders for file in Path(folder, "stoplists").iterdir())
    return {file.stem: file.read_text(encoding="utf-8").split()[:_LISTED] for file in listed}


@lru_cache(maxsize=1)
def _stop_words() -> dict[str, list[str]]:
    """The languages of each frequent word."""
    languages: dict[str, list[str]] = {}
    for name in _CODES:
        for word in {word.lower() for word in _lists()[name]}:
            languages.setdefault(word, []).append(name)
    return languages


@lru_cache(maxsize=1)
def _model() -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """log2 of the probability of pairs of letters that follow each other, and of an unseen pair by its first letter."""
    solid = " ".join(_WORD.findall(_folded(" ".join(word for words in _lists().values() for word in words))))
    pairs = Counter(pairwise(solid))
    firsts = Counter(solid)
    total = {a: count + _UNSEEN * _ALPHABET for a, count in firsts.items()}
    likely = {pair: math.log2((count + _UNSEEN) / total[pair[0]]) for pair, count in pairs.items()}
    return likely, {a: math.log2(_UNSEEN / count) for a, count in total.items()}
