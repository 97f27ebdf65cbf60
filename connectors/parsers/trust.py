"""Trust in text: letters that make words of a language, and what else speaks against a page."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from retrieval.ports import PageQuality

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


def rate_plausibility(text: str) -> float | None:
    """Return 0 for letter sequences that no language has, up to 1 for running text.

    None if the text is not measurable: too few letters, a script without a list, a sequence of few letters such as a
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


def detect_language(text: str) -> str:
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
    files = sorted(file for folder in folders for file in Path(folder, "stoplists").iterdir())
    return {file.stem: file.read_text(encoding="utf-8").split()[:_LISTED] for file in files}


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
SEVERAL_WAYS = "Its text is read in several directions: rows of its tables may be wrong."
NOTHING_RECOGNISED = "No text was recognised on the page."
NO_LETTERS = "Its fonts do not say which letters they show."
STRANGE_LETTERS = "Letters follow each other as in no language, in part of the text at least."
NO_LANGUAGE = "Its letters follow each other as in no language."
NO_TEXT = "Its characters are bytes that are no text."
_WORDY = 0.6
_FEWEST_FOREIGN = 20
_MIXED_SCRIPTS, _ACCENTED = 0.3, 0.6
_EAST_ASIAN = frozenset(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"))
NO_WORDS = "Most of its characters are punctuation: its fonts do not say which letters they show."
TORN_WORDS = "Most of its words are torn apart."
_SIGNS_QUALITY, _TORN_QUALITY = 0.3, 0.5
_FEWEST_LETTERS, _TORN_SHARE = 0.35, 0.7
_WITHOUT_MEANING = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff\x00-\x08\x0b-\x1f]")


def judge_page(page: int, text: str, *, unmapped: float = 0.0) -> PageQuality:
    """The quality of a text layer. `unmapped`: the share of its characters whose font leads to no letter."""
    lost, plausible = _lost(text), rate_plausibility(text)
    if lost > _LOST or (unmapped > _UNMAPPED and (plausible is None or plausible < _SURELY)):
        return unreadable_page(page, NO_LETTERS)
    if _is_signs(text):
        return _quality(page, _SIGNS_QUALITY, [NO_WORDS])
    reasons = [*_reasons(lost), *([WRONG_LETTERS] if plausible is not None and plausible < LIMIT else [])]
    quality = min(1 - lost, 1.0 if plausible is None else plausible)
    if plausible is None and _is_torn(text):
        quality, reasons = min(quality, _TORN_QUALITY), [*reasons, TORN_WORDS]
    return _quality(page, quality, reasons)


def _is_signs(text: str) -> bool:
    """Tell whether punctuation makes most of a text, as of fonts whose codes are no letters."""
    signs = re.sub(r"\s+|(.)\1+", r"\1", text)
    return len(signs) >= FEWEST and sum(map(str.isalnum, signs)) < _FEWEST_LETTERS * len(signs)


def _is_torn(text: str) -> bool:
    words = re.findall(r"[a-zA-Z\u00c0-\u052f]+", text)
    return len(words) >= FEWEST // 2 and sum(len(word) <= 2 for word in words) > _TORN_SHARE * len(words)


def judge_recognised(page: int, text: str, confidence: float = 1.0) -> PageQuality:
    """Return the quality of a recognised page. `confidence`: of the engine, from 0 to 1, if it returns one."""
    lost, plausible = _lost(text), rate_plausibility(text)
    quality = min(confidence, 1 - lost, 1.0 if plausible is None else plausible)
    reasons = [f"The text recognition is {confidence:.0%} sure of the page."] if confidence < _SURELY else []
    reasons += [*_reasons(lost), *([STRANGE_LETTERS] if plausible is not None and plausible < LIMIT else [])]
    return _quality(page, quality, reasons, recognised=True)


def judge_whole(text: str) -> PageQuality:
    """Return the quality of a text without pages, such as that of an Office file.

    Unlikely letters in a part of the text are only reported. The text is unread where all of its parts have them, or
    where bytes of no text were decoded as one.
    """
    lost = _lost(text)
    if lost > _LOST:
        return unreadable_page(None, f"{lost:.0%} of its characters have no meaning.")
    parts = list(_parts(text))
    if parts and all(map(_is_decoded_binary, parts)):
        return unreadable_page(None, NO_TEXT)
    judged = [plausible for part in parts if (plausible := rate_plausibility(part)) is not None]
    if judged and max(judged) < LIMIT and all(map(_is_wordy, parts)):
        return unreadable_page(None, NO_LANGUAGE)
    plausible = min(judged, default=1.0)
    reasons = [*_reasons(lost), *([STRANGE_LETTERS] if plausible < LIMIT else [])]
    return PageQuality(None, round(min(1 - lost, plausible), 3), tuple(reasons))


def unreadable_page(page: int | None, reason: str, *, recognised: bool = False) -> PageQuality:
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


def _is_wordy(text: str) -> bool:
    """Letters are most of it: tables of numbers and hexadecimal digits are not judged by their letters."""
    solid = "".join(text.split())
    return sum(map(str.isalpha, solid)) > _WORDY * len(solid)


def _is_decoded_binary(text: str) -> bool:
    """Characters of scripts that change from one to the next, unassigned ones, or hardly a letter without an accent."""
    foreign = [character for character in text if character > "\x7f"]
    if len(foreign) < _FEWEST_FOREIGN or 2 * len(foreign) < len("".join(text.split())):
        return False
    # ASCII as UTF-16 of the other byte order leads to characters beyond U+3400 whose second byte is zero.
    swapped = sum(character >= "\u3400" and not ord(character) % 256 for character in foreign)
    unassigned = sum(unicodedata.category(character) in ("Cn", "Cc") for character in foreign)
    if swapped + unassigned > _MIXED_SCRIPTS * len(foreign):
        return True
    letters = list(filter(str.isalpha, text))
    accented = sum("\xc0" <= letter < "\u0250" for letter in letters)
    pairs = [pair for pair in pairwise(map(_script, text)) if all(pair)]
    changes = sum(script != following for script, following in pairs)
    is_mixed = len(pairs) >= _FEWEST_FOREIGN and changes > _MIXED_SCRIPTS * len(pairs)
    return is_mixed or accented > _ACCENTED * len(letters) > 0


@lru_cache(maxsize=8192)
def _script(character: str) -> str:
    """The script of a letter beyond ASCII; "" for other characters, and for letters that are written as marks."""
    if character < "\x80" or unicodedata.category(character) not in ("Lo", "Ll", "Lu"):
        return ""
    name = unicodedata.name(character, "").partition(" ")[0]
    return "CJK" if name in _EAST_ASIAN else name
