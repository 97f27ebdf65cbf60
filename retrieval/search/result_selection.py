"""Choose the chunks to show: recency, one place per document first, copies merged, contexts disjoint.

final = (1 - weight) * score + weight * 0.5 ** (age / half-life)        the threshold applies to the final score
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

from retrieval.search.context_expansion import Context, Expansion, ParsedText, Range, Texts, Unit
from retrieval.search.queries import LEADING_SCORE_SHARE, Candidate, Hit

ItemT = TypeVar("ItemT")

# Files read in parallel.
_PARALLEL_READERS = 8
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Recency:
    """Weight of document age, 0 to 1, and half-life in days."""

    half_life_days: float
    weight: float

    def compute_freshness(self, candidate: Candidate, current_time: datetime) -> float:
        """Return 1 for a document modified now, 0.5 after a half-life."""
        age = (
            current_time - (_parse_timestamp(candidate.modified_at) or candidate.created_at)
        ).total_seconds() / _DAY_SECONDS
        return math.pow(0.5, max(age, 0.0) / self.half_life_days)


@dataclass(slots=True)
class Pick:
    """Chosen candidate with final score, share of recency and context."""

    candidate: Candidate
    score: float
    recency: float | None = None
    text: ParsedText | None = None
    chunk_range: Range = (0, 0)
    context_range: Range = (0, 0)


@dataclass(frozen=True, slots=True)
class Shape:
    """Options of a search for recency, diversity and context."""

    per_document: int | None = None
    expansion: Expansion | None = None
    recency: Recency | None = None

    @property
    def is_plain(self) -> bool:
        return self.per_document is None and self.expansion is None and self.recency is None


@dataclass(slots=True)
class ResultSelector:
    """Choose and expand the candidates of a search."""

    shape: Shape
    top_k: int
    threshold: float
    texts: Texts | None = None
    current_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    _texts_by_document: dict[str, ParsedText | None] = field(default_factory=dict)

    def pick(self, candidates: Sequence[Candidate]) -> list[Pick]:
        """Choose up to `top_k` candidates; input and output are best first."""
        ordered = _leave_out_copies(self._score_picks(candidates))
        if self.shape.per_document is None:
            ordered = lead_documents(ordered, lambda pick: (pick.candidate.document_id, pick.score))
        if self.shape.expansion is not None:
            self._prefetch(ordered)
        picked: list[Pick] = []
        picks_by_document: dict[str, int] = {}
        for pick in ordered:
            document = pick.candidate.document_id
            if self.shape.per_document is not None and picks_by_document.get(document, 0) >= self.shape.per_document:
                continue
            if self.shape.expansion is not None and not self._set_context(pick, picked, self.shape.expansion):
                continue
            picked.append(pick)
            picks_by_document[document] = picks_by_document.get(document, 0) + 1
            if len(picked) == self.top_k:
                break
        return sorted(picked, key=_rank_key)

    def read_context(self, pick: Pick, hit: Hit) -> Context | None:
        """Return the requested context of a hit, or the chunk's own text if the parsed text is unreadable."""
        expansion = self.shape.expansion
        if expansion is None or self.texts is None:
            return None
        if pick.text is not None and not pick.candidate.has_hidden:
            start, end = pick.context_range
            return Context(pick.text.text[start:end], start, end)
        chunk_text = ParsedText(hit.content, (), self.texts.tokenizer)
        start, end = chunk_text.expand_around((0, len(chunk_text.text)), Unit.CHUNK, expansion.max_tokens)
        return Context(chunk_text.text[start:end], hit.start + start, hit.start + end)

    def _score_picks(self, candidates: Sequence[Candidate]) -> list[Pick]:
        recency = self.shape.recency
        if recency is None:
            return [Pick(candidate, candidate.score) for candidate in candidates if candidate.score >= self.threshold]
        picks: list[Pick] = []
        for candidate in candidates:
            freshness = recency.compute_freshness(candidate, self.current_time)
            score = (1 - recency.weight) * candidate.score + recency.weight * freshness
            picks.append(Pick(candidate, score, freshness))
        picks.sort(key=_rank_key)
        return [pick for pick in picks if pick.score >= self.threshold]

    def _set_context(self, pick: Pick, picked: Sequence[Pick], expansion: Expansion) -> bool:
        """Set the context of a candidate; False if a better hit's context covers the chunk."""
        pick.text = self._read_text(pick.candidate)
        if pick.text is None:
            return True
        pick.chunk_range = pick.text.trim_blanks(pick.candidate.start, pick.candidate.end)
        neighbours = [neighbour for neighbour in picked if neighbour.text is pick.text]
        if any(_contains(neighbour.context_range, pick.chunk_range) for neighbour in neighbours):
            return False  # Counting the tokens of a second context would be slow.
        unit = Unit.CHUNK if pick.candidate.has_hidden else expansion.unit
        pick.context_range = pick.text.expand_around(pick.chunk_range, unit, expansion.max_tokens)
        overlapping = (neighbour for neighbour in neighbours if _overlap(neighbour.context_range, pick.context_range))
        better = next(overlapping, None)
        if better is None or pick.candidate.has_hidden:
            return True
        _extend_context(better, pick, [neighbour for neighbour in neighbours if neighbour is not better], expansion)
        return False

    def _read_text(self, candidate: Candidate) -> ParsedText | None:
        document = candidate.document_id
        if document not in self._texts_by_document and self.texts is not None:
            text = self.texts.read(candidate.parsed_key) if candidate.parsed_key else None
            is_complete = text is not None and candidate.end <= len(text)
            self._texts_by_document[document] = (
                ParsedText(text, candidate.pages or (), self.texts.tokenizer) if text and is_complete else None
            )
        return self._texts_by_document.get(document)

    def _prefetch(self, ordered: Sequence[Pick]) -> None:
        """Read the texts of the likely results in parallel."""
        best_candidates: dict[str, Candidate] = {}
        for pick in ordered:
            best_candidates.setdefault(pick.candidate.document_id, pick.candidate)
        unread = [
            candidate
            for candidate in islice(best_candidates.values(), self.top_k)
            if candidate.document_id not in self._texts_by_document
        ]
        if len(unread) > 1:
            with ThreadPoolExecutor(min(_PARALLEL_READERS, len(unread)), thread_name_prefix="context") as pool:
                list(pool.map(self._read_text, unread))


def _leave_out_copies(ordered: Sequence[Pick]) -> list[Pick]:
    """Return the first pick of each text."""
    texts: set[str] = set()
    first_picks = []
    for pick in ordered:
        text_hash = pick.candidate.text_hash
        if text_hash is None or text_hash not in texts:
            first_picks.append(pick)
        if text_hash is not None:
            texts.add(text_hash)
    return first_picks


def lead_documents(scored: Sequence[ItemT], read: Callable[[ItemT], tuple[str, float]]) -> list[ItemT]:
    """Move the best chunk of each document close to the top score to the front; `scored` is best first."""
    # Further chunks of one document must not displace documents of nearly the same score.
    leading: list[ItemT] = []
    trailing: list[ItemT] = []
    documents: set[str] = set()
    for entry in scored:
        document, score = read(entry)
        leads = document not in documents and score >= float(LEADING_SCORE_SHARE) * read(scored[0])[1]
        documents.add(document)
        (leading if leads else trailing).append(entry)
    return leading + trailing


def _rank_key(pick: Pick) -> tuple[float, str, int]:
    return -pick.score, pick.candidate.document_id, pick.candidate.index


def apply_recency(hits: Sequence[Hit], recency: Recency) -> list[Hit]:
    """Apply recency to new scores and sort, best first."""
    weighed = [
        replace(hit, score=(1 - recency.weight) * hit.score + recency.weight * (hit.recency or 0.0)) for hit in hits
    ]
    return sorted(weighed, key=lambda hit: -hit.score)


def _extend_context(better: Pick, worse: Pick, neighbours: Sequence[Pick], expansion: Expansion) -> None:
    """Extend the better hit's context over both chunks, within the token limit."""
    text, limit = better.text, expansion.max_tokens
    if text is None:
        return
    union = min(better.context_range[0], worse.context_range[0]), max(better.context_range[1], worse.context_range[1])
    chunk_range = min(better.chunk_range[0], worse.chunk_range[0]), max(better.chunk_range[1], worse.chunk_range[1])
    context_range = union
    if not text.fits_limit(union, limit):
        context_range = text.expand_around(chunk_range, expansion.unit, limit, union)
    overlaps = any(_overlap(context_range, neighbour.context_range) for neighbour in neighbours)
    if _contains(context_range, chunk_range) and text.fits_limit(context_range, limit) and not overlaps:
        better.context_range, better.chunk_range = context_range, chunk_range


def _contains(outer: Range, inner: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _overlap(first: Range, second: Range) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def _parse_timestamp(stamp: str | None) -> datetime | None:
    """Parse `modifiedAt`; None for text other than a date."""
    try:
        moment = datetime.fromisoformat(stamp or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
