"""OCR engines: Tesseract and the packaged one, their languages, and the order of the lines that they find."""

from __future__ import annotations

import ctypes
import io
import re
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from retrieval.errors import Skippable

if TYPE_CHECKING:
    from PIL.Image import Image


_FEW = 4
"""Lines on each side that make two columns of a gap; fewer are a form or a table, read row by row."""
_PROSE = 15
"""Characters of a line of running text at least, on the average."""


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised line and the box around it, in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def layout_text(lines: Sequence[Line]) -> str:
    """The lines as paragraphs, column by column."""
    return "\n\n".join(filter(None, (_block(column) for column in _columns(list(lines)))))


def _columns(lines: list[Line]) -> list[list[Line]]:
    """Split at a gap from top to bottom that has running text at both sides; what spans it goes before or after."""
    gutter = _gutter(lines)
    if gutter is None:
        return [lines]
    across = [line for line in lines if line.left < gutter < line.right]
    left_lines = [line for line in lines if line.right <= gutter]
    right_lines = [line for line in lines if line.left >= gutter]
    start = min(line.top for line in left_lines + right_lines)
    above = [line for line in across if line.middle <= start]
    below = [line for line in across if line.middle > start]
    return [part for part in (above, *_columns(left_lines), *_columns(right_lines), below) if part]


def _gutter(lines: list[Line]) -> float | None:
    if len(lines) < 2 * _FEW:
        return None
    for line in sorted(lines, key=lambda line: line.left):
        edge = line.left - 1
        left_lines = [candidate for candidate in lines if candidate.right <= edge]
        right_lines = [candidate for candidate in lines if candidate.left >= edge]
        across = [candidate for candidate in lines if candidate.left < edge < candidate.right]
        if min(len(left_lines), len(right_lines)) < _FEW or not _apart(left_lines + right_lines, across):
            continue
        if min(_mean(left_lines), _mean(right_lines)) >= _PROSE:
            return edge
    return None


def _apart(columns: list[Line], across: list[Line]) -> bool:
    """Does what spans the columns stand above or below them, as a heading or footer does?"""
    top, bottom = min(line.middle for line in columns), max(line.middle for line in columns)
    return not any(top < line.middle < bottom for line in across)


def _mean(lines: list[Line]) -> float:
    return sum(len(line.text) for line in lines) / len(lines)


def _block(lines: list[Line]) -> str:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        if rows and line.middle - _middle(rows[-1]) < 0.5 * min(line.height, rows[-1][-1].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    usual = median(line.height for line in lines) if lines else 0
    written: list[str] = []
    bottom = 0.0
    for row in rows:
        words = "  ".join(line.text for line in sorted(row, key=lambda line: line.left))
        apart = bool(written) and min(line.top for line in row) - bottom > 0.8 * usual
        written.append(("\n" if apart else "") + words)
        bottom = max(line.bottom for line in row)
    return "\n".join(written).strip()


def _middle(row: list[Line]) -> float:
    return sum(line.middle for line in row) / len(row)


_LATIN_LANGUAGES = (
    "afr aze bos cat ces cym dan deu deu_latf eng enm epo est eus fao fil fin fra frm fry gla gle glg hat hrv hun"
    " ind isl ita ita_old jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa spa_old sqi srp_latn"
    " swa swe ton tur uzb vie yor"
)
LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "Latin": tuple(_LATIN_LANGUAGES.split()),
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


def parse_script(report: str) -> str | None:
    """The script that tesseract's report on a page names; None without a sure one, or one that no pack is known for."""
    match = _SCRIPT.search(report)
    if match is None or float(match[2]) < _LEAST_CONFIDENCE or match[1] not in LANGUAGES:
        return None
    return match[1]


def choose_languages(script: str, wanted: Collection[str], installed: Collection[str]) -> tuple[str, ...]:
    """The installed packs that read a script: those that are wanted, else the usual one; none if there is none."""
    readers = [name for name in LANGUAGES[script] if name in installed]
    return tuple(name for name in readers if name in wanted) or tuple(readers[:1])


def language_refusal(script: str) -> str:
    """The sentence for people whose page no installed pack reads."""
    usual = LANGUAGES[script][0]
    package = f"tesseract-ocr-{usual.replace('_', '-')}"
    return (
        f"A page is written in {script} script, which the text recognition of this installation cannot read. Ask its "
        f"operator to install the language pack of tesseract, such as {package} (Debian), then retry the file."
    )


TESSERACT_DOTS, PACKAGED_DOTS = 300, 200
"""Dots an inch at which each recognises best; the packaged one shrinks what is larger."""
_LATIN = (
    "afr aze bos cat ces cym dan deu deu_latf eng enm epo est eus fao fin fra frm fry gla gle glg hat hrv hun"
    " ind isl ita ita_old jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa spa_old sqi srp_latn"
    " swa swe ton tur uzb yor"
)
_EASTERN = "chi_sim chi_sim_vert chi_tra chi_tra_vert jpn jpn_vert"
PACKAGED_READS = frozenset(_LATIN.split() + _EASTERN.split())
"""By tesseract's names, the languages whose letters the packaged engine's model holds: Latin, Chinese, Japanese."""
_SURE = 0.8
_TRIED = 6
_CELLS = 12
_DOUBTFUL = 0.8
"""Below this mean confidence the page may be in a script that the languages do not know: .38 to .5 were measured."""
_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Recognised:
    """The text of a page, and the engine's confidence in it from 0 to 1; 0 without a word.

    `is_final`: no other engine here reads these languages or this script.
    """

    text: str
    confidence: float
    is_final: bool = False


def with_tesseract(image: Image, program: str, languages: tuple[str, ...]) -> Recognised:
    """The text as https://tesseract-ocr.github.io finds it, upright where its data allows.

    Where it is unsure, the page's script decides: it is read with the installed pack of that script.
    Skippable, naming script and package, if neither such a pack nor the packaged engine reads it.
    """
    installed = installed_languages(program)
    chosen = [name for name in languages if name in installed]
    if not chosen:
        missing = ", ".join(languages)
        raise Skippable(
            f"The text recognition of this installation has no data for: {missing}. Ask its operator to install it, "
            "or to change the setting RETRIEVAL_OCR_LANGUAGES."
        )
    layout_mode = "1" if "osd" in installed else "3"
    png = io.BytesIO()
    image.save(png, "PNG", compress_level=1, dpi=(TESSERACT_DOTS, TESSERACT_DOTS))

    def recognise(packs: Sequence[str]) -> tuple[str, float]:
        command = [program, "stdin", "stdout", "-l", "+".join(packs), "--psm", layout_mode, "tsv"]
        return _of_table(_run(command, png.getvalue()))

    text, confidence = recognise(chosen)
    script = _script(program, png.getvalue()) if confidence < _DOUBTFUL and "osd" in installed else None
    if script is None or set(chosen).intersection(LANGUAGES[script]):
        return Recognised(text, confidence, is_final=not PACKAGED_READS.intersection(languages))
    if packs := choose_languages(script, languages, installed):
        return Recognised(*recognise(packs), is_final=True)
    if PACKAGED_READS.intersection(LANGUAGES[script]):
        return Recognised("", 0.0)
    raise Skippable(language_refusal(script))


def _script(program: str, png: bytes) -> str | None:
    """The script of a page, None where there is too little text to tell."""
    command = [program, "stdin", "stdout", "-l", "osd", "--psm", "0"]
    done = subprocess.run(command, input=png, capture_output=True, check=False, preexec_fn=_end_with_parent)
    return parse_script(done.stdout.decode("utf-8", "replace"))


def _of_table(table: str) -> tuple[str, float]:
    """The words of tesseract's table, a line a line, an empty one between paragraphs; and their mean confidence."""
    text: list[str] = []
    sure: list[float] = []
    current_line = paragraph = None
    for row in table.split("\n")[1:]:
        cells = row.split("\t")
        if len(cells) != _CELLS or not cells[-1].strip():
            continue
        line = tuple(cells[1:5])
        if line == current_line:
            text.append(" ")
        elif current_line is not None:
            text.append("\n" if line[:3] == paragraph else "\n\n")
        current_line, paragraph = line, line[:3]
        text.append(cells[-1].strip())
        sure.append(float(cells[10]))
    return "".join(text), fmean(sure) / 100 if sure else 0.0


@lru_cache(maxsize=1)
def installed_languages(program: str) -> frozenset[str]:
    """Return the data of tesseract, "osd" included. Raises Skippable if it cannot be started."""
    return frozenset(_run([program, "--list-langs"], b"").split("\n")[1:])


def _run(command: list[str], data: bytes) -> str:
    done = subprocess.run(command, input=data, capture_output=True, check=False, preexec_fn=_end_with_parent)
    if done.returncode == -signal.SIGXCPU:
        signal.raise_signal(signal.SIGXCPU)
    if done.returncode != 0:
        message = done.stderr[:300].decode("utf-8", "replace")
        raise Skippable("The text recognition could not read a page of the file.") from RuntimeError(message)
    return done.stdout.decode("utf-8", "replace")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def with_packaged(image: Image) -> Recognised:
    """The text as RapidOCR finds it (https://rapidai.github.io/RapidOCRDocs), the page set upright before."""
    import numpy as np

    pixels = np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
    result = _engine()(pixels, use_det=True, use_cls=False, use_rec=True)
    turns = _turns(pixels, result)
    if turns:
        result = _engine()(np.ascontiguousarray(np.rot90(pixels, turns)), use_det=True, use_cls=False, use_rec=True)
    return Recognised(layout_text(_lines(result)), fmean(result.scores) if result.scores else 0.0)


def _lines(found: Any) -> list[Line]:
    if found.boxes is None or not found.txts:
        return []
    return [
        Line(float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 0].max()), float(box[:, 1].max()), text)
        for box, text in zip(found.boxes, found.txts, strict=True)
        if text.strip()
    ]


def _turns(pixels: Any, found: Any) -> int:
    """Return the counterclockwise quarter turns that make the text legible: 0 if it is, or if none does better."""
    if found.boxes is None or not found.txts:
        return 0
    boxes = sorted(found.boxes, key=_area, reverse=True)[:_TRIED]
    lying = sum(_tall(box) for box in found.boxes) * 2 > len(found.boxes)
    if not lying and fmean(found.scores) >= _SURE:
        return 0
    scores = {turns: _legible(pixels, boxes, turns) for turns in ((1, 3, 0) if lying else (0, 2))}
    best = max(scores, key=lambda turns: scores[turns])
    return best if scores[best] > max(scores[0] + 0.1, 0.6) else 0


def _area(box: Any) -> float:
    width, height = box.max(axis=0) - box.min(axis=0)
    return float(width * height)


def _tall(box: Any) -> bool:
    width, height = box.max(axis=0) - box.min(axis=0)
    return bool(height > 1.5 * width)


def _legible(pixels: Any, boxes: list[Any], turns: int) -> float:
    """Return the engine's confidence in the text of these boxes if the page is turned."""
    import numpy as np

    scores = []
    for box in boxes:
        (left, top), (right, bottom) = box.min(axis=0).astype(int), box.max(axis=0).astype(int)
        piece = np.rot90(pixels[max(top, 0) : bottom + 1, max(left, 0) : right + 1], turns)
        if piece.shape[0] > 1.5 * piece.shape[1]:
            scores.append(0.0)
            continue
        result = _engine()(np.ascontiguousarray(piece), use_det=False, use_cls=False, use_rec=True)
        scores += [float(score) for score in result.scores or [0.0]]
    return fmean(scores) if scores else 0.0


@lru_cache(maxsize=1)
def _engine() -> Any:
    from rapidocr import RapidOCR

    threads = {f"EngineConfig.onnxruntime.{scope}_op_num_threads": 1 for scope in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **threads})
