"""Quality and cost of file parsing by engine.

    .venv/bin/python -m bench.parse [--engines service liteparse pypdfium2] [--kinds tables columns] [--seed 1]

Shared collections and about 120 drawn files with known truth. Per kind and engine: F1 of tables and kept rows, recall
and precision of words, word order, F1 of headings, noise (share of words that are base64 or unprintable), share of
correct files, and CPU over pypdfium2's text. `--keep FOLDER` writes every text.
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

from bench.harness import DATA_FOLDER, tree_seconds, write_figures
from bench.parse import cases, engines, measures
from bench.parse.cases import ParseCase
from bench.parse.measures import Score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=list(engines.ENGINES), choices=list(engines.ENGINES))
    parser.add_argument("--kinds", nargs="+", default=[""], help="only kinds that start with one of these")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--ocr", action="store_true", help="let the service recognise text")
    parser.add_argument("--truth", type=Path, help="a folder of PDFs in ICDAR's format instead of all others")
    parser.add_argument("--keep", type=Path, help="folder for the texts, ENGINE/NAME.md")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        all_cases = (
            cases.iter_icdar(options.truth)
            if options.truth
            else cases.iter_cases(DATA_FOLDER, Path(folder), options.seed)
        )
        chosen_cases = [case for case in all_cases if case.kind.startswith(tuple(options.kinds))]
        pdfs = [case.path for case in chosen_cases if case.path.suffix == ".pdf"]
        for path in pdfs[:1]:
            engines.parse_with_pdfium(path)  # imports are no file's cost
        baseline = {path: measure_cpu(engines.parse_with_pdfium, path)[1] for path in pdfs}
        for name, engine in ((name, engines.ENGINES[name]) for name in options.engines):
            figures[name] = measure_engine(name, engine, chosen_cases, baseline, options)
    print_figures(figures)
    write_figures("parse", figures)
    return 0


def measure_engine(
    name: str, engine: engines.Engine, chosen_cases: Sequence[ParseCase], baseline: dict[Path, float], options: Any
) -> Any:
    scores: dict[str, Score] = {}
    with suppress(Exception):
        engine(chosen_cases[0].path)  # imports and the start of a child are no file's cost
    for case in chosen_cases:
        if name != "service" and case.path.suffix != ".pdf":
            continue
        ocr = case.ocr or options.ocr
        try:
            text, seconds = (
                measure_cpu(engine, case.path)
                if name != "service"
                else measure_cpu(engines.parse_with_service, case.path, ocr=ocr)
            )
        except Exception as error:  # noqa: BLE001 - an engine that fails on a file reads nothing of it
            text, seconds = f"{engines.REFUSED_PREFIX} {error}", 0.0
        if options.keep:
            (options.keep / name).mkdir(parents=True, exist_ok=True)
            (options.keep / name / f"{case.path.stem}.md").write_text(text)
        for kind in (case.kind, "all"):
            score_file(scores.setdefault(kind, Score()), case, text)
            if case.path in baseline and not ocr:
                scores[kind].add(seconds=seconds, baseline=baseline[case.path])
    return {kind: {**total.figures(), "cpu": total.ratio("seconds", "baseline")} for kind, total in scores.items()}


def score_file(total: Score, case: ParseCase, text: str) -> None:
    refused = text.startswith(engines.REFUSED_PREFIX)
    readable_text = "" if refused else text
    total.files += 1
    measures.score_noise(total, readable_text)
    if case.tables:
        measures.score_tables(total, case.tables, readable_text)
    if case.words and case.readable is not False:
        measures.score_words(total, case.words, readable_text)
    if case.headings:
        measures.score_headings(total, case.headings, readable_text)
    if case.readable is not None:
        total.add(judged=1, right=is_correct(case, readable_text, refused=refused))


def is_correct(case: ParseCase, text: str, *, refused: bool) -> bool:
    """Check a file; an unreadable file must be refused or recognized."""
    if case.readable:
        return not refused and all(cases.contains_text(required_text, text) for required_text in case.required_texts)
    expected = set(measures.split_words(case.words))
    return refused or len(expected & set(measures.split_words(text))) > 0.6 * len(expected) > 0


def measure_cpu(engine: Any, path: Path, **options: Any) -> tuple[str, float]:
    """Return the text and the CPU seconds of this process and its children."""
    started, own = tree_seconds(os.getpid()), time.process_time()
    text: str = engine(path, **options)
    return text, max(tree_seconds(os.getpid()) - started, time.process_time() - own)


def print_figures(figures: dict[str, Any]) -> None:
    columns = ("files", "tables", "rows", "recall", "precision", "order", "headings", "noise", "right", "cpu")
    kinds = dict.fromkeys(kind for scores in figures.values() for kind in scores)
    print(f"{'kind':<20}{'engine':<12}" + "".join(f"{name:>10}" for name in columns))
    for kind in kinds:
        for name, scores in figures.items():
            if kind in scores:
                cells = (scores[kind][column] for column in columns)
                cell_texts = (
                    "" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells
                )
                print(f"{kind:<20}{name:<12}" + "".join(f"{cell:>10}" for cell in cell_texts))


if __name__ == "__main__":
    sys.exit(main())
