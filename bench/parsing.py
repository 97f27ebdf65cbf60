"""Parsing speed by kind: files per second of processor time through our parser, against the bare library.

    .venv/bin/python bench/parsing.py [--rounds 20] [--pages 1600 5000]

Our figure is the processor time of this process and of its children, pipes and limits included; the library's is
kreuzberg in this process with the same settings, and for PDF also pypdfium2's plain text. Each is measured five times
in turn, `--rounds` files at a time; the ratio is the median of the five pairs, beside the least and the largest.
Then a PDF of 1,600 pages, or of as many as `--pages` says: time, and the memory of the child that took most.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402

FILES = report.data() / "files"
PAIRS = 5
CASES = (
    "dl_multi_page.pdf",
    "un_docx-hdrftr.docx",
    "un_fake-power-point-table.pptx",
    "un_stanley-cups.xlsx",
    "dl_wiki_duck.html",
    "un_mime-different-plain-html.eml",
    "dl_msg_simple.msg",
    "mk_test.epub",
    "un_simple.odt",
    "un_fake-doc.rtf",
    "dl_csv-pipe.csv",
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--pages", type=int, nargs="*", default=[1600])
    chosen = options.parse_args()
    print(f"{'file':<36} {'ours':>7} {'bare':>7}   files per second of processor time; times the bare one's")
    report.end_in_order()
    found: dict[str, Any] = {name: row(name, "", bare, chosen.rounds) for name in CASES}
    found["pypdfium2"] = row(CASES[0], " pypdfium2", text_alone, chosen.rounds)
    found["long"] = [long_pdf(pages) for pages in chosen.pages]
    report.write("parsing", found)


def row(name: str, baseline: str, bare: Callable[[Path, int], float], rounds: int) -> dict[str, float]:
    pairs = [(ours(FILES / name, rounds), bare(FILES / name, rounds)) for _ in range(PAIRS)]
    ratios = sorted(mine / plain for mine, plain in pairs)
    mine, plain = (rounds / statistics.median(times) for times in zip(*pairs, strict=True))
    told = f"{ratios[PAIRS // 2]:.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
    print(f"{name + baseline:<36} {mine:>7.0f} {plain:>7.0f}   {told}", flush=True)
    return {"ours": round(mine, 1), "bare": round(plain, 1), "ratio": round(ratios[PAIRS // 2], 2)}


def ours(path: Path, rounds: int) -> float:
    from connectors.parsers.parser import parser
    from retrieval.ports import OcrStrategy, RawContent

    raw = RawContent(path=path, name=path.name, media_type="", size=path.stat().st_size)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "raw"
        copy.write_bytes(path.read_bytes())
        raw = RawContent(path=copy, name=path.name, media_type="", size=raw.size)
        reader = parser()
        reader.parse(raw, OcrStrategy.BASIC_PARSER)
        started = used()
        for _ in range(rounds):
            reader.parse(raw, OcrStrategy.BASIC_PARSER)
        return max(used() - started, 0.001)


def bare(path: Path, rounds: int) -> float:
    import kreuzberg

    from connectors.parsers.detect import file_types

    kind: Any = file_types.named(path.name, "")
    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    kreuzberg.extract_file_sync(path, kind.media_type, config=config)
    started = time.process_time()
    for _ in range(rounds):
        kreuzberg.extract_file_sync(path, kind.media_type, config=config)
    return max(time.process_time() - started, 0.001)


def text_alone(path: Path, rounds: int) -> float:
    import pypdfium2

    def text() -> None:
        with pypdfium2.PdfDocument(path) as document:
            for page in document:
                page.get_textpage().get_text_bounded()

    text()
    started = time.process_time()
    for _ in range(rounds):
        text()
    return max(time.process_time() - started, 0.001)


def used() -> float:
    """Processor seconds of this process and its children, those that ended too."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system + sum(map(_seconds, _children()))


def _children() -> list[int]:
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in listed.split()]


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def long_pdf(pages: int) -> dict[str, float]:
    from reportlab.pdfgen.canvas import Canvas

    from connectors.parsers.parser import parser
    from retrieval.ports import OcrStrategy, RawContent

    file = io.BytesIO()
    canvas = Canvas(file)
    for page in range(pages):
        for line in range(45):
            canvas.drawString(60, 780 - 16 * line, f"Page {page + 1}, line {line}: the tide turns at the harbour wall.")
        canvas.showPage()
    canvas.save()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw"
        path.write_bytes(file.getvalue())
        started, cpu = time.monotonic(), used()
        raw = RawContent(path=path, name="long.pdf", media_type="", size=path.stat().st_size)
        parsed = parser().parse(raw, OcrStrategy.BASIC_PARSER)
        most = max((_most_memory(pid) for pid in _children()), default=0)
        spent, bare_s = used() - cpu, text_alone(path, 1)
        print(
            f"a PDF of {pages:,} pages: {spent:.1f} s of processor time, {time.monotonic() - started:.1f} s by"
            f" the clock, {most} MB at most, {len(parsed.pages):,} pages told apart;"
            f" pypdfium2's text alone takes {bare_s:.1f} s"
        )
    return {"pages": pages, "cpu_s": round(spent, 2), "pypdfium2_s": round(bare_s, 2), "megabytes": most}


def _most_memory(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main()
