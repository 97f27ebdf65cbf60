"""The app's labels are the field's standard terms: none of the words that they replaced comes back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from local.roles import PROJECT

REPLACED = (
    "Half of them within",
    "95 of 100 within",
    "Weight of meaning",
    "Least score",
    "As curl or Python",
    "Search by meaning",
    "Start an ingestion",
    "Text layer only",
    "Recognise scans",
    "How far the documents are",
    "Where the time went",
    "Runs under way",
    "waits since",
    "Ingested again",
    "Authorize again",
    "Packed into the document",
    "Any of the values",
    "Gone at the source",
    "Make the key",
    "What it may do",
    "Make it known",
    "Forget a tenant",
    "Content, as sent",
    "The error stands at its field",
    "finding out",
    "is a worker running?",
)
FILES = sorted(path for path in (PROJECT / "ui").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_label_is_of_our_own_making(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    shown = [
        node.value.lower()
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]
    assert [word for word in REPLACED if any(word.lower() in text for text in shown)] == []
