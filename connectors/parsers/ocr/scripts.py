"""Scripts of writing by tesseract's names (`--psm 0`), and the language packs that read them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

_LATIN = (
    "afr aze bos cat ces cym dan deu deu_latf eng enm epo est eus fao fil fin fra frm fry gla gle glg hat hrv hun"
    " ind isl ita ita_old jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa spa_old sqi srp_latn"
    " swa swe ton tur uzb vie yor"
)
LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "Latin": tuple(_LATIN.split()),
    "Fraktur": ("deu_latf", "frk", "deu"),
    "Cyrillic": ("rus", "ukr", "bel", "bul", "srp", "mkd", "kaz", "kir", "mon", "tgk", "tat", "uzb_cyrl", "aze_cyrl"),
    "Greek": ("ell", "grc"),
    "Arabic": ("ara", "fas", "urd", "pus", "snd", "uig", "kur_ara"),
    "Hebrew": ("heb", "yid"),
    "Devanagari": ("hin", "mar", "nep", "san"),
    "Bengali": ("ben", "asm"),
    "Gujarati": ("guj",),
    "Gurmukhi": ("pan",),
    "Kannada": ("kan",),
    "Malayalam": ("mal",),
    "Oriya": ("ori",),
    "Sinhala": ("sin",),
    "Tamil": ("tam",),
    "Telugu": ("tel",),
    "Thai": ("tha",),
    "Lao": ("lao",),
    "Khmer": ("khm",),
    "Myanmar": ("mya",),
    "Tibetan": ("bod", "dzo"),
    "Georgian": ("kat", "kat_old"),
    "Armenian": ("hye",),
    "Ethiopic": ("amh", "tir"),
    "Cherokee": ("chr",),
    "Han": ("chi_sim", "chi_tra", "chi_sim_vert", "chi_tra_vert", "jpn", "jpn_vert"),
    "Japanese": ("jpn", "jpn_vert"),
    "Katakana": ("jpn", "jpn_vert"),
    "Hiragana": ("jpn", "jpn_vert"),
    "Hangul": ("kor", "kor_vert"),
    "Korean": ("kor", "kor_vert"),
}
"""By script, the language packs that read it, the usual one first."""
_LEAST_CONFIDENCE: Final = 1.0
_SCRIPT: Final = re.compile(r"^Script: (\w+)$.*?^Script confidence: ([\d.]+)$", re.MULTILINE | re.DOTALL)


def parse(report: str) -> str | None:
    """The script that tesseract's report on a page names; None without a sure one, or one that no pack is known for."""
    match = _SCRIPT.search(report)
    if match is None or float(match[2]) < _LEAST_CONFIDENCE or match[1] not in LANGUAGES:
        return None
    return match[1]


def choose(script: str, wanted: Collection[str], installed: Collection[str]) -> tuple[str, ...]:
    """The installed packs that read a script: those that are wanted, else the usual one; none if there is none."""
    readers = [name for name in LANGUAGES[script] if name in installed]
    return tuple(name for name in readers if name in wanted) or tuple(readers[:1])


def refusal(script: str) -> str:
    """The sentence for people whose page no installed pack reads."""
    usual = LANGUAGES[script][0]
    package = f"tesseract-ocr-{usual.replace('_', '-')}"
    return (
        f"A page is written in {script} script, which the text recognition of this installation cannot read. Ask its "
        f"operator to install the language pack of tesseract, such as {package} (Debian), then retry the file."
    )
