"""Match hidden passages with the chunks of a new version, whose boundaries may have moved."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import structlog

from retrieval.database.rows import Executor
from retrieval.documents.queries import hidden_passages as queries

# A chunk with so many successive words of a hidden passage is hidden: fewer are common phrases.
MATCHED_WORDS: Final = 8
# A letter of a script without spaces is a word.
_WORD_PATTERN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]|[^\W_]+"
)

log = structlog.get_logger()

Entry = Mapping[str, Any]


def hash_content(content: str) -> str:
    """Return the hash by which searches recognise a hidden chunk: SHA-256, hexadecimal."""
    return sha256(content.encode()).hexdigest()


def find_chunks(passage: str, contents: Sequence[str]) -> list[int]:
    """Return the positions of chunks equal to the passage, else of chunks sharing a run of words."""
    equal = [place for place, content in enumerate(contents) if content == passage]
    if equal:
        return equal
    words = _split_words(passage)
    runs: dict[int, set[tuple[str, ...]]] = {}
    places = []
    for place, content in enumerate(contents):
        chunk_words = _split_words(content)
        # A short chunk is hidden if all of it is in the passage.
        size = min(MATCHED_WORDS, len(words), len(chunk_words))
        if size not in runs:
            runs[size] = _list_runs(words, size)
        if size and not runs[size].isdisjoint(_list_runs(chunk_words, size)):
            places.append(place)
    return places


def hide_matching_chunks(connection: Executor, documents: Sequence[str]) -> None:
    """Hide the chunks of the searchable versions that hold hidden passages of the documents."""
    hiding = queries.list_hiding_documents(connection, documents)
    contents = defaultdict(list)
    for chunk in queries.list_version_chunks(connection, [document.id for document in hiding]):
        contents[chunk.document_id].append(chunk.content)
    for document in hiding:
        entries = [
            matched
            for entry in document.hidden
            if not entry.get("isPart")
            for matched in _match_entry(entry, document.texts.get(entry["id"]), contents[document.id])
        ]
        queries.replace_entries(connection, document.id, entries, document.texts)
        matched_before = {entry["id"] for entry in document.hidden if not entry.get("isUnmatched")}
        unmatched = [entry["id"] for entry in entries if entry.get("isUnmatched") and entry["id"] in matched_before]
        if unmatched:
            log.warning("hidden_passages.unmatched", document_id=document.id, passages=len(unmatched))
            queries.note_unmatched(connection, document.id, unmatched)


def _match_entry(entry: Entry, text: str | None, contents: Sequence[str]) -> list[Entry]:
    """Return the entry, and an entry per further chunk with the passage."""
    if entry["contentHash"] is None:
        return [entry]
    # Passages that an older version of this service stored have the beginning of their text only.
    passage = text or entry["excerpt"]
    hashes = dict.fromkeys(hash_content(contents[place]) for place in find_chunks(passage, contents))
    first = {name: value for name, value in entry.items() if name != "isUnmatched"}
    if not hashes:
        first["isUnmatched"] = True
    others = [content_hash for content_hash in hashes if content_hash != entry["contentHash"]]
    parts = [
        {"id": entry["id"], "reason": entry["reason"], "contentHash": content_hash, "isPart": True}
        for content_hash in others
    ]
    return [first, *parts]


def _split_words(text: str) -> list[str]:
    return _WORD_PATTERN.findall(text.casefold())


def _list_runs(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[place : place + size]) for place in range(len(words) - size + 1)}
