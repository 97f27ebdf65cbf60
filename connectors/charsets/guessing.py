"""Guess the encoding of a text without a mark: the one under which it is the likeliest text of some language.

Each candidate's characters cost by their rarity, in natural logarithms: letters by their rank in a language
(https://en.wikipedia.org/wiki/Letter_frequency), Han characters by their level in the national standards.
"""

from __future__ import annotations

import codecs
import math
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_SAMPLE = 4096
_BACK = 256
_ALIEN, _BROKEN, _CASE = -9.0, -14.0, -4.0
_USUAL = -7.6
"""What a character of a text costs at most on average, where nothing else says that it is one."""
_LATIN_END = "\u0370"
_ASCII_PLAIN, _ASCII_ODD = -5.0, -8.0
_WESTERN = (
    "éèàêçâùîôûëïœüÿæ", "äüößÄÖÜ", "áéíóñúü¿¡º", "ãçáéíóâõêúàôü", "àèéìòù", "ëéïèöü", "åäöé", "æøåé", "áíúéöóýðþæ",
    "àçèéíïòóúü·", "éäöüáíóàèçñßåøæêâúãõîôûëïœùìòÄÖÜÅØÉ¿¡",
)  # fmt: skip
_CENTRAL = ("łąężśóćńź", "íáéěýřčžšůúťňďóľôäĺŕ", "éáöóőüíúű", "ăîâșțşţ", "čžšćđ", "žčšěćńóřśźůŭ")
_CYRILLIC = ("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", "оаинветрсклудмпяьзгбічйжїхшюєцщґф", "аиоетнрсвлдпкмзгбъучшяцхжщйюфѝ")
_GREEK = ("αοιετσνηυρπκμλςωθδγέίόάήχύφβώξζψΐϊϋ",)
_TURKISH = ("ıüşğçöİâ",)
_ARABIC = ("اليمونتربةعدسفهكقحجشصىأطخضغذثزإءئظؤآپچژگکی",)
_HEBREW = ("יוהלאתרבשמנדםחקעפטצגזכןסךףץ",)
_THAI = ("านรอกเงมยลวดทสตะปบคหแจพชขใไโผฟศณญซธภฐถฉฝฆฮ่้ัิีุู็์ื๊๋ำํฯๆ",)
_BALTIC = ("āīēšūņļžčģķ", "ėųšžįąčęū", "õäüöšž")
_SINGLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cp1252", _WESTERN),
    ("cp1251", _CYRILLIC),
    ("koi8-r", _CYRILLIC),
    ("koi8-u", _CYRILLIC),
    ("cp1250", _CENTRAL),
    ("iso8859-2", _CENTRAL),
    ("cp1253", _GREEK),
    ("iso8859-7", _GREEK),
    ("cp1254", _TURKISH),
    ("cp1255", _HEBREW),
    ("iso8859-8", _HEBREW),
    ("cp1256", _ARABIC),
    ("iso8859-6", _ARABIC),
    ("cp1257", _BALTIC),
    ("cp874", _THAI),
    ("iso8859-5", _CYRILLIC),
    ("cp866", _CYRILLIC),
    ("cp850", _WESTERN),
    ("cp852", _CENTRAL),
)
_UNUSUAL = ((("cp866", "cp850", "cp852", "cp874"), 6.0), (tuple(name for name, _ in _SINGLE[1:]), 2.0))
"""What an encoding costs beside the text: DOS and all but Windows' Western one need a reason."""
_EASTERN = ("cp932", "euc_jp", "gb18030", "cp950", "cp949")
_WIDE = ("utf-16-le", "utf-16-be")
_HANGUL = (
    "이다는의에을를가고하지도로사은기어대나서인한시아리그자으해있정수구일보들게부전스원주라과만제상여국면장선비유동성공"
)
_HAN = (
    "的一是不了在人有我他这個个們们中來来上大為为和國国地到以說说時时要就出會会可也你對对生能而子那得於于著着下自之年過过發发"
    "後后作裡里用道行所然家種种事成方多經经學学如都同現现當当動动面起看定天分還还進进好小部其些主樣样理心本前開开但因只從从想"
    "實实日者意無无力與与長长月明高每新年水文書书記记電电話话車车東东見见問问間间語语関関円気"
)

_KNOWN = (("、。「」『』・〜,!?:;()“”‘’—…《》", -4.5), (_HANGUL, -4.5), (_HAN, -5.0))  # noqa: RUF001 - signs of these scripts


def guess_encoding(data: bytes, *, wide: bool = False) -> str | None:
    """The likeliest encoding of what is no UTF-8; None if it is a text in none. `wide`: UTF-16 or none."""
    sample = _part(data)
    scores = {name: _eastern(sample, name) for name in (_WIDE if wide else (*_EASTERN, *_WIDE))}
    scores |= {name: _single(sample, name, alphabets) for name, alphabets in _SINGLE[: 1 if wide else None]}
    for names, cost in _UNUSUAL:
        scores |= {name: scores[name] - cost for name in names if name in scores}
    best = max(scores, key=lambda name: scores[name])
    if wide:
        return best if best in _WIDE and scores[best] > _USUAL * len(sample) / 2 else None
    return best if scores[best] > _ALIEN * len(sample) / 2 else None


def _part(data: bytes) -> bytes:
    """From a little before the first character beyond ASCII, at the start of a unit of UTF-16."""
    first = next((position for position in range(len(data)) if data[position] > 127), 0)
    start = max(first - _BACK, 0) // 2 * 2
    return data[start : start + _SAMPLE]


def _decoded(sample: bytes, name: str) -> str:
    return codecs.getincrementaldecoder(name)("replace").decode(sample, len(sample) < _SAMPLE)


def _single(sample: bytes, name: str, alphabets: Iterable[str]) -> float:
    text = _decoded(sample, name)
    return max(_cost(text, _weights(alphabet)) for alphabet in alphabets)


def _eastern(sample: bytes, name: str) -> float:
    text = _decoded(sample, name)
    if name not in _WIDE:
        return _cost(text, {})
    return max(_cost(text, _weights(alphabet)) for alphabet in ("", *_CYRILLIC, *_GREEK, *_ARABIC, *_HEBREW, *_THAI))


@lru_cache(maxsize=64)
def _weights(alphabet: str) -> dict[str, float]:
    """Rank to probability, falling as 1 / (rank + 4); capitals are rarer."""
    total = sum(1 / (rank + 4) for rank in range(len(alphabet))) or 1.0

    weights = {letter: math.log(1 / (rank + 4) / total) for rank, letter in enumerate(alphabet)}
    return {**{letter.upper(): cost - 2.5 for letter, cost in weights.items() if len(letter.upper()) == 1}, **weights}


def _cost(text: str, weights: dict[str, float]) -> float:
    cost, previous = 0.0, " "
    for position, character in enumerate(text):
        if character in weights:
            cost += weights[character]
            cost += _CASE if character >= _LATIN_END and previous.isascii() and previous.isalpha() else 0.0
        elif character < "\x80":
            cost += _of_ascii(character)
            cost += _CASE if character.isalpha() and previous >= _LATIN_END and previous in weights else 0.0
        elif not weights and (east := _of_east(character)) is not None:
            cost += east
        else:
            cost += _of_sign(character, previous, text[position + 1 : position + 2])
        cost += _CASE if character.isupper() and previous.islower() else 0.0
        previous = character
    return cost


@lru_cache(maxsize=256)
def _of_ascii(character: str) -> float:
    if character == " ":
        return -1.8
    if character.isalpha():
        return -3.0 if character.islower() else _ASCII_PLAIN
    if character.isdigit() or character in "\t\n\r\f.,;:!?'\"()-/%":
        return _ASCII_PLAIN
    return _ASCII_ODD if character.isprintable() else _BROKEN


@lru_cache(maxsize=8192)
def _of_east(character: str) -> float | None:
    """Cost of a character of Chinese, Japanese or Korean; None for others."""
    if "\u3040" <= character <= "\u30ff":
        return -4.2
    for characters, cost in _KNOWN:
        if character in characters:
            return cost
    if "\uac00" <= character <= "\ud7a3":
        return -8.0 if _within(character, "euc_kr", 0xB0, 0xC8) else -13.0
    if "\u4e00" <= character <= "\u9fff":
        first = _within(character, "gb2312", 0xB0, 0xD7) or _within(character, "big5", 0xA4, 0xC6)
        return -8.2 if first or _within(character, "shift_jis", 0x88, 0x97) else -12.5
    return None


def _within(character: str, encoding: str, low: int, high: int) -> bool:
    """Tell whether the character is on the first level of a national standard, by its first byte there."""
    try:
        return low <= character.encode(encoding)[0] <= high
    except UnicodeEncodeError:
        return False


def _of_sign(character: str, before: str, after: str) -> float:
    """Cost of signs outside of alphabets: quotes, dashes and currencies cost something only within a word."""
    category = unicodedata.category(character)
    if category in ("Cc", "Co", "Cn", "Cs") or "\u2500" <= character <= "\u259f" or character == "\ufffd":
        return _BROKEN
    if category[0] in "LM":
        return _ALIEN
    if character in "½¼¾":
        return -5.5
    inside = before.isalpha() and after.isalpha() and character not in "’‘-"  # noqa: RUF001
    return _ALIEN if inside or category in ("No", "Sm", "Lm", "Sk") else -4.5
