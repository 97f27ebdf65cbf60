"""Search quality on a folder's files: `retrieval prove --mine FOLDER`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from local import LocalError
from local.prove.documents import DocumentSet, ProofBench, find_external_id, share_within
from local.prove.questions import Question, make_questions

_MAX_QUESTIONS = 400


def measure_folder(bench: ProofBench, folder: Path) -> dict[str, Any]:
    """Ingest a folder, ask generated questions, and count the ranks of their documents."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))
    if not files:
        raise LocalError(f"There is no file in {folder}.", exit_code=2)
    document_set = DocumentSet(bench, "mine")
    bench.report(f"ingesting {len(files)} files")
    for file in files:
        document_set.add_file(str(file.relative_to(folder)), file)
    document_set.wait_for_runs()
    texts = document_set.read_texts()
    questions = make_questions(texts, 40 if bench.is_quick else _MAX_QUESTIONS)
    if not questions:
        raise LocalError(
            f"No question can be made from {folder}: {document_set.failures or 'its files hold too few words'}"
        )
    bench.report(f"{len(texts)} documents; asking {len(questions)} questions")
    began = time.perf_counter()
    ranks = document_set.rank_answers(
        [question.text for question in questions], lambda n, hit: is_answer(questions[n], hit)
    )
    milliseconds = 1000 * (time.perf_counter() - began) / len(questions)
    figures = summarize_ranks(questions, ranks)
    bench.report(f"first {figures['first1']:.3f}, first five {figures['first5']:.3f}")
    return {
        "folder": folder.name,
        "files": len(files),
        "documents": len(texts),
        "meanMilliseconds": round(milliseconds, 1),
        "unread": document_set.failures,
        **figures,
    }


def is_answer(question: Question, hit: Any) -> bool:
    """Check that a chunk is of the question's document and, for a row, has all cells in one line."""
    if find_external_id(hit) != question.document:
        return False
    return not question.cells or any(all(cell in line for cell in question.cells) for line in hit.content.splitlines())


def summarize_ranks(questions: Sequence[Question], ranks: Sequence[int | None]) -> dict[str, Any]:
    """Return shares of first and top-five ranks by kind of file and question."""
    pairs = list(zip(questions, ranks, strict=True))

    def summarize_kinds(kinds: Sequence[str]) -> dict[str, Any]:
        groups: dict[str, list[int | None]] = {}
        for kind, rank in sorted(zip(kinds, ranks, strict=True), key=lambda pair: pair[0]):
            groups.setdefault(kind, []).append(rank)
        return {kind: _count_shares(members) for kind, members in groups.items()}

    return {
        **_count_shares(ranks),
        "byFile": summarize_kinds([PurePath(q.document).suffix.lower() or "without suffix" for q in questions]),
        "byQuestion": summarize_kinds([question.kind for question in questions]),
        "misses": [{"question": q.text, "kind": q.kind, "document": q.document} for q, rank in pairs if rank is None],
    }


def _count_shares(ranks: Sequence[int | None]) -> dict[str, float]:
    return {"questions": len(ranks), "first1": share_within(ranks, 1), "first5": share_within(ranks, 5)}


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
