"""OCR engines: Tesseract and the packaged RapidOCR, their languages, and the reading order of lines."""

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


# Minimum of lines on each side of a column gap; fewer are a form or table, read row by row.
_MIN_COLUMN_LINES = 4
# Minimum mean length of lines of running text.
_MIN_PROSE_LENGTH = 15


@dataclass(frozen=True, slots=True)
class RecognisedLine:
    """Recognised line and its box in pixels from the top left."""

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


def layout_text(lines: Sequence[RecognisedLine]) -> str:
    """Format lines as paragraphs, column by column."""
    return "\n\n".join(filter(None, (_format_column(column) for column in _split_columns(list(lines)))))


def _split_columns(lines: list[RecognisedLine]) -> list[list[RecognisedLine]]:
    """Split lines recursively at a vertical gap between columns of running text; spanning lines come first or last."""
    gutter = _find_gutter(lines)
    if gutter is None:
        return [lines]
    across = [line for line in lines if line.left < gutter < line.right]
    left_lines = [line for line in lines if line.right <= gutter]
    right_lines = [line for line in lines if line.left >= gutter]
    start = min(line.top for line in left_lines + right_lines)
    above = [line for line in across if line.middle <= start]
    below = [line for line in across if line.middle > start]
    return [part for part in (above, *_split_columns(left_lines), *_split_columns(right_lines), below) if part]


def _find_gutter(lines: list[RecognisedLine]) -> float | None:
    if len(lines) < 2 * _MIN_COLUMN_LINES:
        return None
    for line in sorted(lines, key=lambda line: line.left):
        edge = line.left - 1
        left_lines = [candidate for candidate in lines if candidate.right <= edge]
        right_lines = [candidate for candidate in lines if candidate.left >= edge]
        across = [candidate for candidate in lines if candidate.left < edge < candidate.right]
        if min(len(left_lines), len(right_lines)) < _MIN_COLUMN_LINES or not _are_outside(
            left_lines + right_lines, across
        ):
            continue
        if min(_mean_length(left_lines), _mean_length(right_lines)) >= _MIN_PROSE_LENGTH:
            return edge
    return None


def _are_outside(columns: list[RecognisedLine], across: list[RecognisedLine]) -> bool:
    """Check that all spanning lines are above or below the columns, like headings and footers."""
    top, bottom = min(line.middle for line in columns), max(line.middle for line in columns)
    return not any(top < line.middle < bottom for line in across)


def _mean_length(lines: list[RecognisedLine]) -> float:
    return sum(len(line.text) for line in lines) / len(lines)


def _format_column(lines: list[RecognisedLine]) -> str:
    rows: list[list[RecognisedLine]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        if rows and line.middle - _row_middle(rows[-1]) < 0.5 * min(line.height, rows[-1][-1].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    usual_height = median(line.height for line in lines) if lines else 0
    formatted: list[str] = []
    bottom = 0.0
    for row in rows:
        words = "  ".join(line.text for line in sorted(row, key=lambda line: line.left))
        is_paragraph = bool(formatted) and min(line.top for line in row) - bottom > 0.8 * usual_height
        formatted.append(("\n" if is_paragraph else "") + words)
        bottom = max(line.bottom for line in row)
    return "\n".join(formatted).strip()


def _row_middle(row: list[RecognisedLine]) -> float:
    return sum(line.middle for line in row) / len(row)


_LATIN_LANGUAGES = (
    "afr aze bos cat ces cym dan deu deu_latf eng enm epo est eus fao fil fin fra frm fry gla gle glg hat hrv hun"
    " ind isl ita ita_old jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa spa_old sqi srp_latn"
    " swa swe ton tur uzb vie yor"
)
# Language packs by script, the usual pack first.
SCRIPT_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
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
_MIN_SCRIPT_CONFIDENCE: Final = 1.0
_SCRIPT_PATTERN: Final = re.compile(r"^Script: (\w+)$.*?^Script confidence: ([\d.]+)$", re.MULTILINE | re.DOTALL)


def parse_script(report: str) -> str | None:
    """Return the script in tesseract's report on a page; None if uncertain or without a known pack."""
    match = _SCRIPT_PATTERN.search(report)
    if match is None or float(match[2]) < _MIN_SCRIPT_CONFIDENCE or match[1] not in SCRIPT_LANGUAGES:
        return None
    return match[1]


def choose_languages(script: str, preferred: Collection[str], installed: Collection[str]) -> tuple[str, ...]:
    """Return the installed packs of a script: all preferred ones, else the most usual, else none."""
    readers = [name for name in SCRIPT_LANGUAGES[script] if name in installed]
    return tuple(name for name in readers if name in preferred) or tuple(readers[:1])


def language_refusal(script: str) -> str:
    """Return the message for a page in a script without an installed pack."""
    usual = SCRIPT_LANGUAGES[script][0]
    package = f"tesseract-ocr-{usual.replace('_', '-')}"
    return (
        f"A page is written in {script} script, which the text recognition of this installation cannot read. Ask its "
        f"operator to install the language pack of tesseract, such as {package} (Debian), then retry the file."
    )


# Best resolution of each engine in dots per inch; the packaged one shrinks larger images.
TESSERACT_DOTS, PACKAGED_DOTS = 300, 200
# Languages of the packaged model by tesseract's names.
PACKAGED_LANGUAGES = frozenset((*SCRIPT_LANGUAGES["Latin"], *SCRIPT_LANGUAGES["Han"])) - {"fil", "vie"}
_MIN_UPRIGHT_CONFIDENCE = 0.8
_MAX_TRIED_BOXES = 6
_TSV_COLUMNS = 12
# Below this mean confidence the page may be in another script: .38 to .5 were measured.
_DOUBTFUL_CONFIDENCE = 0.8
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class RecognisedText:
    """Text of a page, and the engine's confidence from 0 to 1; 0 without a word."""

    text: str
    confidence: float
    # No other engine of this installation reads these languages or this script.
    is_final: bool = False


def recognise_with_tesseract(image: Image, program: str, languages: tuple[str, ...]) -> RecognisedText:
    r"""Recognise text with https://tesseract-ocr.github.io, in upright pages if the osd data is installed.

    Below a minimum confidence the installed pack of the page's script reads it. Skippable, with script and package, if
    neither a pack nor the packaged engine reads the script.
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
        return _parse_tsv(_run_tesseract(command, png.getvalue()))

    text, confidence = recognise(chosen)
    script = (
        _detect_script(program, png.getvalue()) if confidence < _DOUBTFUL_CONFIDENCE and "osd" in installed else None
    )
    if script is None or set(chosen).intersection(SCRIPT_LANGUAGES[script]):
        return RecognisedText(text, confidence, is_final=not PACKAGED_LANGUAGES.intersection(languages))
    if packs := choose_languages(script, languages, installed):
        return RecognisedText(*recognise(packs), is_final=True)
    if PACKAGED_LANGUAGES.intersection(SCRIPT_LANGUAGES[script]):
        return RecognisedText("", 0.0)
    raise Skippable(language_refusal(script))


def _detect_script(program: str, png: bytes) -> str | None:
    """Return the script of a page; None for too little text."""
    command = [program, "stdin", "stdout", "-l", "osd", "--psm", "0"]
    completed = subprocess.run(command, input=png, capture_output=True, check=False, preexec_fn=_end_with_parent)
    return parse_script(completed.stdout.decode("utf-8", "replace"))


def _parse_tsv(table: str) -> tuple[str, float]:
    """Return the text of tesseract's TSV table, with empty lines between paragraphs, and its mean confidence."""
    text: list[str] = []
    confidences: list[float] = []
    current_line = paragraph = None
    for row in table.split("\n")[1:]:
        cells = row.split("\t")
        if len(cells) != _TSV_COLUMNS or not cells[-1].strip():
            continue
        line = tuple(cells[1:5])
        if line == current_line:
            text.append(" ")
        elif current_line is not None:
            text.append("\n" if line[:3] == paragraph else "\n\n")
        current_line, paragraph = line, line[:3]
        text.append(cells[-1].strip())
        confidences.append(float(cells[10]))
    return "".join(text), fmean(confidences) / 100 if confidences else 0.0


@lru_cache(maxsize=1)
def installed_languages(program: str) -> frozenset[str]:
    """Return the language packs of tesseract, with "osd". Skippable if tesseract cannot start."""
    return frozenset(_run_tesseract([program, "--list-langs"], b"").split("\n")[1:])


def _run_tesseract(command: list[str], data: bytes) -> str:
    completed = subprocess.run(command, input=data, capture_output=True, check=False, preexec_fn=_end_with_parent)
    if completed.returncode == -signal.SIGXCPU:
        signal.raise_signal(signal.SIGXCPU)
    if completed.returncode != 0:
        message = completed.stderr[:300].decode("utf-8", "replace")
        raise Skippable("The text recognition could not read a page of the file.") from RuntimeError(message)
    return completed.stdout.decode("utf-8", "replace")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def recognise_with_packaged(image: Image) -> RecognisedText:
    """Recognise text with RapidOCR (https://rapidai.github.io/RapidOCRDocs), after turning the page upright."""
    import numpy as np

    pixels = np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
    result = _load_engine()(pixels, use_det=True, use_cls=False, use_rec=True)
    turns = _find_turns(pixels, result)
    if turns:
        result = _load_engine()(
            np.ascontiguousarray(np.rot90(pixels, turns)), use_det=True, use_cls=False, use_rec=True
        )
    return RecognisedText(layout_text(_result_lines(result)), fmean(result.scores) if result.scores else 0.0)


def _result_lines(result: Any) -> list[RecognisedLine]:
    if result.boxes is None or not result.txts:
        return []
    return [
        RecognisedLine(
            float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 0].max()), float(box[:, 1].max()), text
        )
        for box, text in zip(result.boxes, result.txts, strict=True)
        if text.strip()
    ]


def _find_turns(pixels: Any, result: Any) -> int:
    """Return the counterclockwise quarter turns for legible text: 0 if none improves it."""
    if result.boxes is None or not result.txts:
        return 0
    boxes = sorted(result.boxes, key=_box_area, reverse=True)[:_MAX_TRIED_BOXES]
    lying = sum(_is_tall(box) for box in result.boxes) * 2 > len(result.boxes)
    if not lying and fmean(result.scores) >= _MIN_UPRIGHT_CONFIDENCE:
        return 0
    scores = {turns: _turn_confidence(pixels, boxes, turns) for turns in ((1, 3, 0) if lying else (0, 2))}
    best = max(scores, key=lambda turns: scores[turns])
    return best if scores[best] > max(scores[0] + 0.1, 0.6) else 0


def _box_area(box: Any) -> float:
    width, height = box.max(axis=0) - box.min(axis=0)
    return float(width * height)


def _is_tall(box: Any) -> bool:
    width, height = box.max(axis=0) - box.min(axis=0)
    return bool(height > 1.5 * width)


def _turn_confidence(pixels: Any, boxes: list[Any], turns: int) -> float:
    """Return the engine's confidence in the text of some boxes after turning the page."""
    import numpy as np

    scores = []
    for box in boxes:
        (left, top), (right, bottom) = box.min(axis=0).astype(int), box.max(axis=0).astype(int)
        piece = np.rot90(pixels[max(top, 0) : bottom + 1, max(left, 0) : right + 1], turns)
        if piece.shape[0] > 1.5 * piece.shape[1]:
            scores.append(0.0)
            continue
        result = _load_engine()(np.ascontiguousarray(piece), use_det=False, use_cls=False, use_rec=True)
        scores += [float(score) for score in result.scores or [0.0]]
    return fmean(scores) if scores else 0.0


@lru_cache(maxsize=1)
def _load_engine() -> Any:
    from rapidocr import RapidOCR

    threads = {f"EngineConfig.onnxruntime.{scope}_op_num_threads": 1 for scope in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **threads})
