"""Trust in extracted text: plausibility of letter sequences, and other signs of unreadable pages."""

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

# Minimum of letters, in words of three or more, for a judgement.
MIN_LETTERS = 80
_WORD_PATTERN = re.compile(r"[^\W\d_]{3,}")
_ACCENT_PATTERN = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u200c\u200d]")
# Words of each stop list, sorted by frequency.
_WORDS_PER_LIST = 400
_UNSEEN_COUNT = 0.1
_ALPHABET_SIZE = 30
# Mean log2 probability of a letter after its predecessor: of running text, and of wrong letters.
_LANGUAGE_SCORE, _NOISE_SCORE = -4.0, -6.0
_MIN_DISTINCT_LETTERS = 10
# Minimum ratio of equal letter pairs to those of random letters: 1.3 in most languages, and in ciphers.
_MIN_REPEAT_RATIO = 1.1
_MAX_SAMPLE_LENGTH = 20_000
_MIN_STOP_WORD_SHARE = 0.1
_LANGUAGE_CODES = {
    "Arabic": "ar", "Belarusian": "be", "Bulgarian": "bg", "Catalan": "ca", "Croatian": "hr", "Czech": "cs",
    "Danish": "da", "Dutch": "nl", "English": "en", "Estonian": "et", "Finnish": "fi", "French": "fr", "German": "de",
    "Greek": "el", "Hebrew": "he", "Hindi": "hi", "Hungarian": "hu", "Indonesian": "id", "Italian": "it",
    "Korean": "ko", "Latvian": "lv", "Lithuanian": "lt", "Norwegian_Bokmal": "nb", "Persian": "fa", "Polish": "pl",
    "Portuguese": "pt", "Romanian": "ro", "Russian": "ru", "Serbian": "sr", "Slovak": "sk", "Slovenian": "sl",
    "Spanish": "es", "Swedish": "sv", "Turkish": "tr", "Ukrainian": "uk", "Urdu": "ur", "Vietnamese": "vi",
    "Welsh": "cy", "Basque": "eu", "Galician": "gl", "Icelandic": "is", "Irish": "ga", "Bengali": "bn", "Tamil": "ta",
}  # fmt: skip
# Languages without spaces: range of their letters and minimum share of them.
_LETTER_RANGES = (("ja", "\u3040", "\u30ff", 0.1), ("zh", "\u4e00", "\u9fff", 0.3), ("th", "\u0e00", "\u0e7f", 0.3))


def rate_plausibility(text: str, min_letters: int = MIN_LETTERS) -> float | None:
    r"""Return the plausibility of letter sequences, from 0 (in no language) to 1 (running text).

    None for too few letters, a script without a stop list, a genome, or random letters such as keys.
    """
    min_distinct = min(_MIN_DISTINCT_LETTERS, min_letters // 2)
    # Languages without a list resemble the listed languages; a cipher resembles none.
    solid = " ".join(_WORD_PATTERN.findall(_fold_text(text[:_MAX_SAMPLE_LENGTH])))
    likely, firsts = _build_letter_model()
    pairs = {pair: count for pair, count in Counter(pairwise(solid)).items() if pair[0] in firsts and pair[0] != " "}
    letters: Counter[str] = Counter()
    for (first, _), count in pairs.items():
        letters[first] += count
    total = letters.total()
    if total < min_letters or len(letters) < min_distinct or (total >= MIN_LETTERS and _is_random(letters)):
        return None
    mean = sum(count * likely.get(pair, firsts[pair[0]]) for pair, count in pairs.items()) / total
    return min(max((mean - _NOISE_SCORE) / (_LANGUAGE_SCORE - _NOISE_SCORE), 0.0), 1.0)


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language with the most stop words in a text, or "" below a minimum."""
    sample = text[:_MAX_SAMPLE_LENGTH]
    visible = sum(map(str.isalpha, sample)) or 1
    for code, first, last, share in _LETTER_RANGES:
        if sum(first <= letter <= last for letter in sample) > share * visible:
            return code
    words = Counter(re.findall(r"[^\W\d_]{2,}", sample.lower()))
    hits = Counter[str]()
    for word, count in words.items():
        for name in _stop_word_languages().get(word, ()):
            hits[name] += count
    best = max(_LANGUAGE_CODES, key=lambda name: hits[name])
    return _LANGUAGE_CODES[best] if hits[best] > max(2, _MIN_STOP_WORD_SHARE * words.total()) else ""


def _fold_text(text: str) -> str:
    """Remove case and accents."""
    return _ACCENT_PATTERN.sub("", unicodedata.normalize("NFKD", text.lower()))


def _is_random(letters: Counter[str]) -> bool:
    count = letters.total()
    same = sum(n * (n - 1) for n in letters.values()) / (count * (count - 1))
    return same * len(letters) < _MIN_REPEAT_RATIO


@lru_cache(maxsize=1)
def _load_stop_lists() -> dict[str, list[str]]:
    spec = find_spec("justext")  # importing it would load an HTML parser
    folders = (spec.submodule_search_locations or []) if spec else []
    files = sorted(file for folder in folders for file in Path(folder, "stoplists").iterdir())
    return {file.stem: file.read_text(encoding="utf-8").split()[:_WORDS_PER_LIST] for file in files}


@lru_cache(maxsize=1)
def _stop_word_languages() -> dict[str, list[str]]:
    """Map each stop word to its languages."""
    languages: dict[str, list[str]] = {}
    for name in _LANGUAGE_CODES:
        for word in {word.lower() for word in _load_stop_lists()[name]}:
            languages.setdefault(word, []).append(name)
    return languages


@lru_cache(maxsize=1)
def _build_letter_model() -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """Return log2 probabilities of letter pairs, and of an unseen pair by its first letter."""
    solid = " ".join(
        _WORD_PATTERN.findall(_fold_text(" ".join(word for words in _load_stop_lists().values() for word in words)))
    )
    pairs = Counter(pairwise(solid))
    firsts = Counter(solid)
    total = {a: count + _UNSEEN_COUNT * _ALPHABET_SIZE for a, count in firsts.items()}
    likely = {pair: math.log2((count + _UNSEEN_COUNT) / total[pair[0]]) for pair, count in pairs.items()}
    return likely, {a: math.log2(_UNSEEN_COUNT / count) for a, count in total.items()}


# Pages below it go to OCR or are refused; their text is never kept.
MIN_QUALITY = 0.4
# Maximum share of characters without a meaning on a readable page.
_MAX_LOST_SHARE = 0.25
_MAX_UNMAPPED_SHARE = 0.3
_HIGH_CONFIDENCE = 0.8
# Samples spread over a text without pages; the least plausible decides.
_SAMPLE_COUNT = 5
_SAMPLE_LETTERS = 4_000
PICTURES_ONLY = "The page holds no text, only pictures."
WRONG_LETTERS = "The letters of its fonts lead to other letters: they follow each other as in no language."
NO_LAYOUT = "Its columns and tables could not be made out: its text is in the order of the file."
SEVERAL_DIRECTIONS = "Its text is read in several directions: rows of its tables may be wrong."
NOTHING_RECOGNISED = "No text was recognised on the page."
NO_LETTERS = "Its fonts do not say which letters they show."
STRANGE_LETTERS = "Letters follow each other as in no language, in part of the text at least."
NO_LANGUAGE = "Its letters follow each other as in no language."
UNSURE_LETTERS = "Its fonts do not say which letters they show: they are read by their codes."
NO_TEXT = "Its characters are bytes that are no text."
_MIN_LETTER_SHARE = 0.6
_MIN_FOREIGN_LETTERS = 20
_MAX_SCRIPT_CHANGES, _MAX_ACCENTED_SHARE = 0.3, 0.6
_EAST_ASIAN = frozenset(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"))
NO_WORDS = "Most of its characters are punctuation: its fonts do not say which letters they show."
TORN_WORDS = "Most of its words are torn apart."
_SIGNS_QUALITY, _TORN_QUALITY, _UNSURE_QUALITY = 0.3, 0.5, 0.7
_MIN_SHORT_LETTERS = 12
_NUMBER_PATTERN = re.compile(r"[-+\u2212(]?\d[\d.,:/%)\u2212-]*")
_MIN_ALPHANUMERIC_SHARE, _TORN_SHARE = 0.35, 0.7
_WITHOUT_MEANING = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff\x00-\x08\x0b-\x1f]")


def judge_page(page: int, text: str, *, unmapped: float = 0.0) -> PageQuality:
    """Return the quality of a page's text layer. `unmapped`: share of characters whose font maps to no letter."""
    lost_share, plausible = _lost_share_of(text), rate_plausibility(text)
    is_unsure = unmapped > _MAX_UNMAPPED_SHARE and (plausible is None or plausible < _HIGH_CONFIDENCE)
    # The codes of bitmap fonts, as matplotlib and TeX make them, often are letters although no table says so.
    if is_unsure and plausible is None and lost_share == 0 and _is_short_prose(text):
        return _page_quality(page, _UNSURE_QUALITY, [UNSURE_LETTERS])
    if lost_share > _MAX_LOST_SHARE or is_unsure:
        return unreadable_page(page, NO_LETTERS)
    if sum(map(str.isalpha, text)) >= _MIN_FOREIGN_LETTERS and _is_mostly_accented(text):
        return unreadable_page(page, WRONG_LETTERS)
    if _is_punctuation(text):
        return _page_quality(page, _SIGNS_QUALITY, [NO_WORDS])
    reasons = [
        *_describe_loss(lost_share),
        *([WRONG_LETTERS] if plausible is not None and plausible < MIN_QUALITY else []),
    ]
    quality = min(1 - lost_share, 1.0 if plausible is None else plausible)
    if plausible is None and _is_torn(text):
        quality, reasons = min(quality, _TORN_QUALITY), [*reasons, TORN_WORDS]
    return _page_quality(page, quality, reasons)


def _is_short_prose(text: str) -> bool:
    """Check for a few letters that follow each other as in a language, or for numbers only."""
    if not any(map(str.isalpha, text)):
        return all(map(_NUMBER_PATTERN.fullmatch, text.split()))
    plausible = rate_plausibility(text, _MIN_SHORT_LETTERS)
    return plausible is not None and plausible >= _HIGH_CONFIDENCE


def _is_punctuation(text: str) -> bool:
    """Check for text of mostly punctuation, the result of fonts with arbitrary codes."""
    signs = re.sub(r"\s+|(.)\1+", r"\1", text)
    return len(signs) >= MIN_LETTERS and sum(map(str.isalnum, signs)) < _MIN_ALPHANUMERIC_SHARE * len(signs)


def _is_torn(text: str) -> bool:
    words = re.findall(r"[a-zA-Z\u00c0-\u052f]+", text)
    return len(words) >= MIN_LETTERS // 2 and sum(len(word) <= 2 for word in words) > _TORN_SHARE * len(words)


def judge_recognised(page: int, text: str, confidence: float = 1.0) -> PageQuality:
    """Return the quality of a recognised page. `confidence`: the engine's, from 0 to 1."""
    lost, plausible = _lost_share_of(text), rate_plausibility(text)
    quality = min(confidence, 1 - lost, 1.0 if plausible is None else plausible)
    reasons = [f"The text recognition is {confidence:.0%} sure of the page."] if confidence < _HIGH_CONFIDENCE else []
    reasons += [
        *_describe_loss(lost),
        *([STRANGE_LETTERS] if plausible is not None and plausible < MIN_QUALITY else []),
    ]
    return _page_quality(page, quality, reasons, recognised=True)


def judge_whole(text: str, *, declared: bool = False) -> PageQuality:
    """Return the quality of a text without pages, such as an Office file's. Unread if all parts are implausible or
    decoded binary data; implausible letters in a part, or of `declared` encoding, only lower the quality.
    """
    lost = _lost_share_of(text)
    if lost > _MAX_LOST_SHARE:
        return unreadable_page(None, f"{lost:.0%} of its characters have no meaning.")
    parts = list(_split_samples(text))
    if parts and all(map(_is_decoded_binary, parts)):
        return unreadable_page(None, NO_TEXT)
    judged = [plausible for part in parts if (plausible := rate_plausibility(part)) is not None]
    if judged and max(judged) < MIN_QUALITY and not declared and all(map(_is_wordy, parts)):
        return unreadable_page(None, NO_LANGUAGE)
    plausible = min(judged, default=1.0)
    reasons = [*_describe_loss(lost), *([STRANGE_LETTERS] if plausible < MIN_QUALITY else [])]
    return PageQuality(None, round(min(1 - lost, plausible), 3), tuple(reasons))


def unreadable_page(page: int | None, reason: str, *, recognised: bool = False) -> PageQuality:
    """Return the quality of an unread page or file."""
    return PageQuality(page, 0.0, (reason,), unread=True, recognised=recognised)


def _page_quality(page: int, quality: float, reasons: list[str], *, recognised: bool = False) -> PageQuality:
    return PageQuality(page, round(quality, 3), tuple(reasons), quality < MIN_QUALITY, recognised)


def _describe_loss(lost: float) -> list[str]:
    return [f"{lost:.0%} of its characters have no meaning."] if lost > 0.01 else []


def _lost_share_of(text: str) -> float:
    return min(len(_WITHOUT_MEANING.findall(text)) / max(len("".join(text.split())), 1), 1.0)


def _split_samples(text: str) -> Iterator[str]:
    step = max(len(text) // _SAMPLE_COUNT, _SAMPLE_LETTERS)
    for start in range(0, len(text), step):
        yield text[start : start + _SAMPLE_LETTERS]


def _is_wordy(text: str) -> bool:
    """Check for a majority of letters with a model, as opposed to numbers, hexadecimal digits and other scripts."""
    solid, letters = _fold_text("".join(text.split())), _build_letter_model()[1]
    return sum(map(letters.__contains__, solid)) > _MIN_LETTER_SHARE * len(solid)


def _is_decoded_binary(text: str) -> bool:
    """Check for signs of binary data: changing scripts, unassigned characters, mostly accented letters."""
    foreign = [character for character in text if character > "\x7f"]
    if len(foreign) < _MIN_FOREIGN_LETTERS or 2 * len(foreign) < len("".join(text.split())):
        return False
    # ASCII as UTF-16 of the other byte order leads to characters beyond U+3400 whose second byte is zero.
    swapped = sum(character >= "\u3400" and not ord(character) % 256 for character in foreign)
    unassigned = sum(unicodedata.category(character) in ("Cn", "Cc") for character in foreign)
    if swapped + unassigned > _MAX_SCRIPT_CHANGES * len(foreign):
        return True
    pairs = [pair for pair in pairwise(map(_script_of, text)) if all(pair)]
    changes = sum(script != following for script, following in pairs)
    is_mixed = len(pairs) >= _MIN_FOREIGN_LETTERS and changes > _MAX_SCRIPT_CHANGES * len(pairs)
    return is_mixed or _is_mostly_accented(text)


def _is_mostly_accented(text: str) -> bool:
    """Check for letters of another script in a font or encoding of Latin ones, such as Cyrillic."""
    letters = list(filter(str.isalpha, text))
    return sum("\xc0" <= letter < "\u0250" for letter in letters) > _MAX_ACCENTED_SHARE * len(letters) > 0


@lru_cache(maxsize=8192)
def _script_of(character: str) -> str:
    """Return the script of a letter beyond ASCII; "" for other characters and combining marks."""
    if character < "\x80" or unicodedata.category(character) not in ("Lo", "Ll", "Lu"):
        return ""
    name = unicodedata.name(character, "").partition(" ")[0]
    return "CJK" if name in _EAST_ASIAN else name
