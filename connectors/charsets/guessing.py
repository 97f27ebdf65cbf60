r"""Guess of an undeclared encoding: the likeliest text of some language wins.

Each character costs by its rarity, in natural logarithms: letters by rank in a language
(https://en.wikipedia.org/wiki/Letter_frequency), Han characters by level in the national standards.
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_SAMPLE_BYTES = 4096
_LEADING_BYTES = 256
# Weights are log probabilities of a character.
_ALIEN_WEIGHT, _BROKEN_WEIGHT, _CASE_WEIGHT = -9.0, -14.0, -4.0
# Maximum mean weight of a character in UTF-16 without other evidence.
_USUAL_WEIGHT = -7.6
# Maximum share of printable ASCII among the bytes of UTF-16.
_MAX_ASCII_SHARE = 0.8
_ASCII_TEXT = frozenset((*range(32, 127), *b"\t\n\r"))
_LATIN_END = "\u0370"
_ASCII_PLAIN, _ASCII_ODD = -5.0, -8.0
_WESTERN_LETTERS = (
    "éèàêçâùîôûëïœüÿæ", "äüößÄÖÜ", "áéíóñúü¿¡º", "ãçáéíóâõêúàôü", "àèéìòù", "ëéïèöü", "åäöé", "æøåé", "áíúéöóýðþæ",
    "àçèéíïòóúü·", "éäöüáíóàèçñßåøæêâúãõîôûëïœùìòÄÖÜÅØÉ¿¡",
)  # fmt: skip
_CENTRAL_LETTERS = ("łąężśóćńź", "íáéěýřčžšůúťňďóľôäĺŕ", "éáöóőüíúű", "ăîâșțşţ", "čžšćđ", "žčšěćńóřśźůŭ")
_CYRILLIC_LETTERS = (
    "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
    "оаинветрсклудмпяьзгбічйжїхшюєцщґф",
    "аиоетнрсвлдпкмзгбъучшяцхжщйюфѝ",
)
_GREEK_LETTERS = ("αοιετσνηυρπκμλςωθδγέίόάήχύφβώξζψΐϊϋ",)
_TURKISH_LETTERS = ("ıüşğçöİâ",)
_ARABIC_LETTERS = ("اليمونتربةعدسفهكقحجشصىأطخضغذثزإءئظؤآپچژگکی",)
_HEBREW_LETTERS = ("יוהלאתרבשמנדםחקעפטצגזכןסךףץ",)
_THAI_LETTERS = ("านรอกเงมยลวดทสตะปบคหแจพชขใไโผฟศณญซธภฐถฉฝฆฮ่้ัิีุู็์ื๊๋ำํฯๆ",)
# Code page 1258 writes tones as combining signs.
_VIETNAMESE_LETTERS = ("\u0323\u0300\u0301đươôăâê\u0309\u0303àáéùèúóýÔĐÂ",)
_BALTIC_LETTERS = ("āīēšūņļžčģķ", "ėųšžįąčęū", "õäüöšž")
_SINGLE_BYTE_CODECS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cp1252", _WESTERN_LETTERS),
    ("cp1251", _CYRILLIC_LETTERS),
    ("koi8-r", _CYRILLIC_LETTERS),
    ("koi8-u", _CYRILLIC_LETTERS),
    ("cp1250", _CENTRAL_LETTERS),
    ("iso8859-2", _CENTRAL_LETTERS),
    ("cp1253", _GREEK_LETTERS),
    ("iso8859-7", _GREEK_LETTERS),
    ("cp1254", _TURKISH_LETTERS),
    ("cp1255", _HEBREW_LETTERS),
    ("iso8859-8", _HEBREW_LETTERS),
    ("cp1256", _ARABIC_LETTERS),
    ("iso8859-6", _ARABIC_LETTERS),
    ("cp1257", _BALTIC_LETTERS),
    ("cp1258", _VIETNAMESE_LETTERS),
    ("cp874", _THAI_LETTERS),
    ("iso8859-5", _CYRILLIC_LETTERS),
    ("cp866", _CYRILLIC_LETTERS),
    ("cp850", _WESTERN_LETTERS),
    ("cp852", _CENTRAL_LETTERS),
)
# Subtracted for rare encodings: DOS, and all but the Western one of Windows.
_CODEC_PENALTIES = (
    (("cp866", "cp850", "cp852", "cp874"), 6.0),
    (tuple(name for name, _ in _SINGLE_BYTE_CODECS[1:]), 2.0),
)
# Lines of a text of one byte a letter; in UTF-16, each sign has a zero byte.
_NARROW_LINES = re.compile(rb"\r\n|\n[^\0]{0,120}\n|\d\d:\d\d")
_EASTERN_CODECS = ("cp932", "euc_jp", "gb18030", "cp950", "cp949")
_WIDE_CODECS = ("utf-16-le", "utf-16-be")
_FREQUENT_HANGUL = (
    "이다는의에을를가고하지도로사은기어대나서인한시아리그자으해있정수구일보들게부전스원주라과만제상여국면장선비유동성공"
)
_FREQUENT_HAN = (
    "的一是不了在人有我他这個个們们中來来上大為为和國国地到以說说時时要就出會会可也你對对生能而子那得於于著着下自之年過过發发"
    "後后作裡里用道行所然家種种事成方多經经學学如都同現现當当動动面起看定天分還还進进好小部其些主樣样理心本前開开但因只從从想"
    "實实日者意無无力與与長长月明高每新年水文書书記记電电話话車车東东見见問问間间語语関関円気"
)

_FREQUENT_WEIGHTS = (("、。「」『』・〜,!?:;()“”‘’—…《》", -4.5), (_FREQUENT_HANGUL, -4.5), (_FREQUENT_HAN, -5.0))  # noqa: RUF001 - signs of these scripts


def guess_encoding(data: bytes, *, wide: bool = False) -> str | None:
    """Return the likeliest encoding of non-UTF-8 bytes; None for no text. `wide`: UTF-16 only."""
    sample = _take_sample(data)
    is_ascii = sum(byte in _ASCII_TEXT for byte in sample) > _MAX_ASCII_SHARE * len(sample)
    # A text of one byte a letter, perhaps damaged.
    is_narrow = is_ascii or (b"\0" not in sample and _NARROW_LINES.search(sample))
    codecs_wide = () if is_narrow else _WIDE_CODECS
    scores = {name: _eastern_score(sample, name) for name in (*(() if wide else _EASTERN_CODECS), *codecs_wide)}
    scores |= {
        name: _single_byte_score(sample, name, alphabets)
        for name, alphabets in _SINGLE_BYTE_CODECS[: 1 if wide else None]
    }
    for names, penalty in _CODEC_PENALTIES:
        scores |= {name: scores[name] - penalty for name in names if name in scores}
    best = max(scores, key=lambda name: scores[name])
    if wide:
        return best if best in _WIDE_CODECS and scores[best] > _USUAL_WEIGHT * len(sample) / 2 else None
    # Marks and numbers of ASCII text are no evidence against the letters between them.
    ascii_text = "".join(chr(byte) if byte in _ASCII_TEXT else " " for byte in sample)
    other_count = sum(byte not in _ASCII_TEXT for byte in sample)
    limit = _text_score(ascii_text, {}) + (_ALIEN_WEIGHT / 2 - _ascii_weight(" ")) * other_count
    return best if scores[best] > limit else None


def _take_sample(data: bytes) -> bytes:
    """Return a sample from shortly before the first character beyond ASCII, aligned to UTF-16 units."""
    first = next((position for position in range(len(data)) if data[position] > 127), 0)
    start = max(first - _LEADING_BYTES, 0) // 2 * 2
    return data[start : start + _SAMPLE_BYTES]


def _decode_sample(sample: bytes, name: str) -> str:
    return codecs.getincrementaldecoder(name)("replace").decode(sample, len(sample) < _SAMPLE_BYTES)


def _single_byte_score(sample: bytes, name: str, alphabets: Iterable[str]) -> float:
    text = _decode_sample(sample, name)
    return max(_text_score(text, _letter_weights(alphabet)) for alphabet in alphabets)


def _eastern_score(sample: bytes, name: str) -> float:
    text = _decode_sample(sample, name)
    if name not in _WIDE_CODECS:
        return _text_score(text, {})
    return max(
        _text_score(text, _letter_weights(alphabet))
        for alphabet in ("", *_CYRILLIC_LETTERS, *_GREEK_LETTERS, *_ARABIC_LETTERS, *_HEBREW_LETTERS, *_THAI_LETTERS)
    )


@lru_cache(maxsize=64)
def _letter_weights(alphabet: str) -> dict[str, float]:
    """Map letters to log probabilities by rank, 1 / (rank + 4); capitals are rarer."""
    total = sum(1 / (rank + 4) for rank in range(len(alphabet))) or 1.0

    weights = {letter: math.log(1 / (rank + 4) / total) for rank, letter in enumerate(alphabet)}
    return {
        **{letter.upper(): weight - 2.5 for letter, weight in weights.items() if len(letter.upper()) == 1},
        **weights,
    }


def _text_score(text: str, weights: dict[str, float]) -> float:
    weight, previous = 0.0, " "
    for position, character in enumerate(text):
        if character in weights:
            weight += weights[character]
            weight += _CASE_WEIGHT if character >= _LATIN_END and previous.isascii() and previous.isalpha() else 0.0
        elif character < "\x80":
            weight += _ascii_weight(character)
            weight += _CASE_WEIGHT if character.isalpha() and previous >= _LATIN_END and previous in weights else 0.0
        elif not weights and (east := _eastern_weight(character)) is not None:
            weight += east
        else:
            weight += _sign_weight(character, previous, text[position + 1 : position + 2])
        weight += _CASE_WEIGHT if character.isupper() and previous.islower() else 0.0
        previous = character
    return weight


@lru_cache(maxsize=256)
def _ascii_weight(character: str) -> float:
    if character == " ":
        return -1.8
    if character.isalpha():
        return -3.0 if character.islower() else _ASCII_PLAIN
    if character.isdigit() or character in "\t\n\r\f.,;:!?'\"()-/%":
        return _ASCII_PLAIN
    return _ASCII_ODD if character.isprintable() else _BROKEN_WEIGHT


@lru_cache(maxsize=8192)
def _eastern_weight(character: str) -> float | None:
    """Return the weight of a Chinese, Japanese or Korean character; None for others."""
    if "\u3040" <= character <= "\u30ff":
        return -4.2
    for characters, weight in _FREQUENT_WEIGHTS:
        if character in characters:
            return weight
    if "\uac00" <= character <= "\ud7a3":
        return -8.0 if _is_first_level(character, "euc_kr", 0xB0, 0xC8) else -13.0
    if "\u4e00" <= character <= "\u9fff":
        first = _is_first_level(character, "gb2312", 0xB0, 0xD7) or _is_first_level(character, "big5", 0xA4, 0xC6)
        return -8.2 if first or _is_first_level(character, "shift_jis", 0x88, 0x97) else -12.5
    return None


def _is_first_level(character: str, encoding: str, low: int, high: int) -> bool:
    """Check that a character is on the first level of a national standard, by its first byte."""
    try:
        return low <= character.encode(encoding)[0] <= high
    except UnicodeEncodeError:
        return False


def _sign_weight(character: str, previous: str, following: str) -> float:
    """Return the weight of a sign; quotes, dashes and currencies are improbable only within words."""
    category = unicodedata.category(character)
    if category in ("Cc", "Co", "Cn", "Cs") or "\u2500" <= character <= "\u259f" or character == "\ufffd":
        return _BROKEN_WEIGHT
    if category[0] in "LM":
        return _ALIEN_WEIGHT
    if character in "½¼¾":
        return -5.5
    inside = previous.isalpha() and following.isalpha() and character not in "’‘-"  # noqa: RUF001
    return _ALIEN_WEIGHT if inside or category in ("No", "Sm", "Lm", "Sk") else -4.5
