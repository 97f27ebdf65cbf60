"""The two engines of text recognition: the tesseract program where it is installed, else the one in our packages."""

from __future__ import annotations

import ctypes
import io
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

from connectors.parsers.ocr import layout, scripts
from connectors.parsers.ocr.layout import Line
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from PIL.Image import Image

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
    known = _languages(program)
    chosen = [name for name in languages if name in known]
    if not chosen:
        missing = ", ".join(languages)
        raise Skippable(
            f"The text recognition of this installation has no data for: {missing}. Ask its operator to install it, "
            "or to change the setting RETRIEVAL_OCR_LANGUAGES."
        )
    layout_mode = "1" if "osd" in known else "3"
    png = io.BytesIO()
    image.save(png, "PNG", compress_level=1, dpi=(TESSERACT_DOTS, TESSERACT_DOTS))

    def recognise(packs: Sequence[str]) -> tuple[str, float]:
        command = [program, "stdin", "stdout", "-l", "+".join(packs), "--psm", layout_mode, "tsv"]
        return _of_table(_run(command, png.getvalue()))

    text, confidence = recognise(chosen)
    script = _script(program, png.getvalue()) if confidence < _DOUBTFUL and "osd" in known else None
    if script is None or set(chosen).intersection(scripts.LANGUAGES[script]):
        return Recognised(text, confidence, is_final=not PACKAGED_READS.intersection(languages))
    if packs := scripts.choose(script, languages, known):
        return Recognised(*recognise(packs), is_final=True)
    if PACKAGED_READS.intersection(scripts.LANGUAGES[script]):
        return Recognised("", 0.0)
    raise Skippable(scripts.refusal(script))


def _script(program: str, png: bytes) -> str | None:
    """The script of a page, None where there is too little text to tell."""
    command = [program, "stdin", "stdout", "-l", "osd", "--psm", "0"]
    done = subprocess.run(command, input=png, capture_output=True, check=False, preexec_fn=_end_with_parent)
    return scripts.parse(done.stdout.decode("utf-8", "replace"))


def _of_table(table: str) -> tuple[str, float]:
    """The words of tesseract's table, a line a line, an empty one between paragraphs; and their mean confidence."""
    text: list[str] = []
    sure: list[float] = []
    place = paragraph = None
    for row in table.split("\n")[1:]:
        cells = row.split("\t")
        if len(cells) != _CELLS or not cells[-1].strip():
            continue
        line = tuple(cells[1:5])
        if line == place:
            text.append(" ")
        elif place is not None:
            text.append("\n" if line[:3] == paragraph else "\n\n")
        place, paragraph = line, line[:3]
        text.append(cells[-1].strip())
        sure.append(float(cells[10]))
    return "".join(text), fmean(sure) / 100 if sure else 0.0


@lru_cache(maxsize=1)
def _languages(program: str) -> frozenset[str]:
    return frozenset(_run([program, "--list-langs"], b"").split("\n")[1:])


def _run(command: list[str], data: bytes) -> str:
    done = subprocess.run(command, input=data, capture_output=True, check=False, preexec_fn=_end_with_parent)
    if done.returncode == -signal.SIGXCPU:
        signal.raise_signal(signal.SIGXCPU)
    if done.returncode != 0:
        said = done.stderr[:300].decode("utf-8", "replace")
        raise Skippable("The text recognition could not read a page of the file.") from RuntimeError(said)
    return done.stdout.decode("utf-8", "replace")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def packaged(image: Image) -> Recognised:
    """The text as RapidOCR finds it (https://rapidai.github.io/RapidOCRDocs), the page set upright before."""
    import numpy as np

    pixels = np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
    found = _engine()(pixels, use_det=True, use_cls=False, use_rec=True)
    turns = _turns(pixels, found)
    if turns:
        found = _engine()(np.ascontiguousarray(np.rot90(pixels, turns)), use_det=True, use_cls=False, use_rec=True)
    return Recognised(layout.text(_lines(found)), fmean(found.scores) if found.scores else 0.0)


def _lines(found: Any) -> list[Line]:
    if found.boxes is None or not found.txts:
        return []
    return [
        Line(float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 0].max()), float(box[:, 1].max()), text)
        for box, text in zip(found.boxes, found.txts, strict=True)
        if text.strip()
    ]


def _turns(pixels: Any, found: Any) -> int:
    """How many quarter turns, against the clock, make the text legible: 0 if it is, or if none does better."""
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
    """How sure the engine is of the text in these boxes if the page is turned."""
    import numpy as np

    scores = []
    for box in boxes:
        (left, top), (right, bottom) = box.min(axis=0).astype(int), box.max(axis=0).astype(int)
        piece = np.rot90(pixels[max(top, 0) : bottom + 1, max(left, 0) : right + 1], turns)
        if piece.shape[0] > 1.5 * piece.shape[1]:
            scores.append(0.0)
            continue
        said = _engine()(np.ascontiguousarray(piece), use_det=False, use_cls=False, use_rec=True)
        scores += [float(score) for score in said.scores or [0.0]]
    return fmean(scores) if scores else 0.0


@lru_cache(maxsize=1)
def _engine() -> Any:
    from rapidocr import RapidOCR

    threads = {f"EngineConfig.onnxruntime.{scope}_op_num_threads": 1 for scope in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **threads})
