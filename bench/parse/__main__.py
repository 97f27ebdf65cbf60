"""Quality and cost of what is read from files, engine beside engine.

    .venv/bin/python -m bench.parse [--engines service liteparse pypdfium2] [--kinds tables columns] [--seed 1]

Files are the shared collections and about 120 that are drawn here with a known truth. For each kind of file and each
engine: F1 of tables (neighbouring cells) and rows that stay in one line, recall and precision of words, words in the
order of the truth, F1 of headings, the share of files that came out right (what must stand there does, what cannot be
read is refused), and processor time beside pypdfium2's text. `--keep FOLDER` writes every text.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.harness import DATA, tree_seconds, write
from bench.parse import cases, engines, measures
from bench.parse.cases import Case
from bench.parse.measures import Score


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engines", nargs="+", default=list(engines.ENGINES), choices=list(engines.ENGINES))
    options.add_argument("--kinds", nargs="+", default=[""], help="only kinds that start with one of these")
    options.add_argument("--seed", type=int, default=1, help="of what is drawn")
    options.add_argument("--ocr", action="store_true", help="let the service recognise text")
    options.add_argument("--truth", type=Path, help="a folder of PDFs in ICDAR's format instead of all others")
    options.add_argument("--keep", type=Path, help="folder for the texts, ENGINE/NAME.md")
    chosen = options.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        every = cases.icdar(chosen.truth) if chosen.truth else cases.every(DATA, Path(folder), chosen.seed)
        picked = [case for case in every if case.kind.startswith(tuple(chosen.kinds))]
        pdfs = [case.path for case in picked if case.path.suffix == ".pdf"]
        for path in pdfs[:1]:
            engines.pdfium(path)  # imports are no file's cost
        baseline = {path: cpu(engines.pdfium, path)[1] for path in pdfs}
        for name, engine in ((name, engines.ENGINES[name]) for name in chosen.engines):
            figures[name] = compared(name, engine, picked, baseline, chosen)
    show(figures)
    write("parse", figures)
    return 0


def compared(
    name: str, engine: engines.Engine, picked: Sequence[Case], baseline: dict[Path, float], chosen: Any
) -> Any:
    scores: dict[str, Score] = {}
    with suppress(Exception):
        engine(picked[0].path)  # imports and the start of a child are no file's cost
    for case in picked:
        if name != "service" and case.path.suffix != ".pdf":
            continue
        ocr = case.ocr or chosen.ocr
        try:
            text, seconds = cpu(engine, case.path) if name != "service" else cpu(engines.service, case.path, ocr=ocr)
        except Exception as error:  # noqa: BLE001 - an engine that fails on a file reads nothing of it
            text, seconds = f"{engines.REFUSED} {error}", 0.0
        if chosen.keep:
            (chosen.keep / name).mkdir(parents=True, exist_ok=True)
            (chosen.keep / name / f"{case.path.stem}.md").write_text(text)
        for kind in (case.kind, "all"):
            score(scores.setdefault(kind, Score()), case, text)
            if case.path in baseline and not ocr:
                scores[kind].add(seconds=seconds, baseline=baseline[case.path])
    return {kind: {**total.figures(), "cpu": total.ratio("seconds", "baseline")} for kind, total in scores.items()}


def score(total: Score, case: Case, text: str) -> None:
    refused = text.startswith(engines.REFUSED)
    shown = "" if refused else text
    total.files += 1
    if case.tables:
        measures.score_tables(total, case.tables, shown)
    if case.words and case.readable is not False:
        measures.score_words(total, case.words, shown)
    if case.headings:
        measures.score_headings(total, case.headings, shown)
    if case.readable is not None:
        total.add(judged=1, right=is_right(case, shown, refused=refused))


def is_right(case: Case, text: str, *, refused: bool) -> bool:
    """A file that cannot be read is refused, or recognised: most of its words are there."""
    if case.readable:
        return not refused and all(cases.stands(must, text) for must in case.must)
    expected = set(measures.words(case.words))
    return refused or len(expected & set(measures.words(text))) > 0.6 * len(expected) > 0


def cpu(engine: Any, path: Path, **options: Any) -> tuple[str, float]:
    """The text, and the processor seconds of this process and its children."""
    started, own = tree_seconds(os.getpid()), time.process_time()
    text: str = engine(path, **options)
    return text, max(tree_seconds(os.getpid()) - started, time.process_time() - own)


def show(figures: dict[str, Any]) -> None:
    columns = ("files", "tables", "rows", "recall", "precision", "order", "headings", "right", "cpu")
    kinds = dict.fromkeys(kind for scores in figures.values() for kind in scores)
    print(f"{'kind':<20}{'engine':<12}" + "".join(f"{name:>10}" for name in columns))
    for kind in kinds:
        for name, scores in figures.items():
            if kind in scores:
                cells = (scores[kind][column] for column in columns)
                told = (
                    "" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells
                )
                print(f"{kind:<20}{name:<12}" + "".join(f"{cell:>10}" for cell in told))


if __name__ == "__main__":
    sys.exit(main())
