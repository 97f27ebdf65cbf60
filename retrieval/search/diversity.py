"""Recency, diversity and context of the candidates of a search.

    final = (1 - weight) * score + weight * 0.5 ** (age / half-life)        the threshold applies to it

Places go first to the best chunk of each document whose score is at least 82 % of the best score, then to all others by
score, so that further chunks of one document do not displace documents that are as good; a query with `per_document`
says itself how many it takes. What is chosen is shown best first. Of several chunks with the same text the
best one takes a place and names the documents of the others. A candidate whose context overlaps that of a better
hit of its document is dropped for the next one; the better hit's context then covers both if it fits into the token
limit.
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
from retrieval.search.queries import LEAD, Candidate, Hit

T = TypeVar("T")

_READERS = 8
"""Files that are read at once."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Recency:
    """Weight of a document's age, from 0 to 1, and the days in which its part halves."""

    half_life_days: float
    weight: float

    def part(self, candidate: Candidate, now: datetime) -> float:
        """Return 1 for a document that was modified now or later, one half after each half-life."""
        age = (now - (_instant(candidate.modified_at) or candidate.created_at)).total_seconds() / _DAY
        return math.pow(0.5, max(age, 0.0) / self.half_life_days)


@dataclass(slots=True)
class Pick:
    """A candidate that is shown: its final score, the part that its age gave it, and its context."""

    candidate: Candidate
    score: float
    recency: float | None = None
    text: ParsedText | None = None
    span: Range = (0, 0)
    part: Range = (0, 0)


@dataclass(frozen=True, slots=True)
class Shape:
    """Options of a search beyond the best chunks; `plain` without any."""

    per_document: int | None = None
    expansion: Expansion | None = None
    recency: Recency | None = None

    @property
    def plain(self) -> bool:
        return self.per_document is None and self.expansion is None and self.recency is None


@dataclass(slots=True)
class Shaper:
    """Shapes one search; parsed texts are read once."""

    shape: Shape
    top_k: int
    threshold: float
    texts: Texts | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    _known: dict[str, ParsedText | None] = field(default_factory=dict)

    def pick(self, candidates: Sequence[Candidate]) -> list[Pick]:
        """Choose `top_k` of the candidates at most, which are best first."""
        ordered = _leave_out_copies(self._scored(candidates))
        if self.shape.per_document is None:
            ordered = lead_documents(ordered, lambda pick: (pick.candidate.document_id, pick.score))
        if self.shape.expansion is not None:
            self._prefetch(ordered)
        picked: list[Pick] = []
        counts: dict[str, int] = {}
        for pick in ordered:
            document = pick.candidate.document_id
            if self.shape.per_document is not None and counts.get(document, 0) >= self.shape.per_document:
                continue
            if self.shape.expansion is not None and not self._place(pick, picked, self.shape.expansion):
                continue
            picked.append(pick)
            counts[document] = counts.get(document, 0) + 1
            if len(picked) == self.top_k:
                break
        return sorted(picked, key=_order)

    def context(self, pick: Pick, hit: Hit) -> Context | None:
        """Return the context of a pick, if requested; of its chunk alone if the parsed text could not be read."""
        expansion = self.shape.expansion
        if expansion is None or self.texts is None:
            return None
        if pick.text is not None:
            start, end = pick.part
            return Context(pick.text.text[start:end], start, end)
        alone = ParsedText(hit.content, (), self.texts.tokenizer)
        start, end = alone.around((0, len(alone.text)), Unit.CHUNK, expansion.max_tokens)
        return Context(alone.text[start:end], hit.start + start, hit.start + end)

    def _scored(self, candidates: Sequence[Candidate]) -> list[Pick]:
        recency = self.shape.recency
        if recency is None:
            return [Pick(candidate, candidate.score) for candidate in candidates if candidate.score >= self.threshold]
        picks: list[Pick] = []
        for candidate in candidates:
            part = recency.part(candidate, self.now)
            score = (1 - recency.weight) * candidate.score + recency.weight * part
            picks.append(Pick(candidate, score, part))
        picks.sort(key=_order)
        return [pick for pick in picks if pick.score >= self.threshold]

    def _place(self, pick: Pick, picked: Sequence[Pick], expansion: Expansion) -> bool:
        """Find the context of a candidate; False if it belongs to a better hit's."""
        pick.text = self._text(pick.candidate)
        if pick.text is None:
            return True
        pick.span = pick.text.trimmed(pick.candidate.start, pick.candidate.end)
        same = [neighbour for neighbour in picked if neighbour.text is pick.text]
        if any(neighbour.part[0] <= pick.span[0] and pick.span[1] <= neighbour.part[1] for neighbour in same):
            return False  # it is shown there already; finding its own context would count thousands of tokens
        unit = Unit.CHUNK if pick.candidate.has_hidden else expansion.unit
        pick.part = pick.text.around(pick.span, unit, expansion.max_tokens)
        better = next((neighbour for neighbour in same if _overlap(neighbour.part, pick.part)), None)
        if better is None or pick.candidate.has_hidden:
            return True
        _grow(better, pick, [neighbour for neighbour in same if neighbour is not better], expansion)
        return False

    def _text(self, candidate: Candidate) -> ParsedText | None:
        """None, and no context, if the parsed text cannot be read now."""
        document = candidate.document_id
        if document not in self._known and self.texts is not None:
            text = self.texts.read(candidate.parsed_key) if candidate.parsed_key else None
            whole = text is not None and candidate.end <= len(text)
            self._known[document] = (
                ParsedText(text, candidate.pages or (), self.texts.tokenizer) if text and whole else None
            )
        return self._known.get(document)

    def _prefetch(self, ordered: Sequence[Pick]) -> None:
        """Read the texts of the documents that will probably be shown, several at once."""
        first: dict[str, Candidate] = {}
        for pick in ordered:
            first.setdefault(pick.candidate.document_id, pick.candidate)
        unread = [
            candidate for candidate in islice(first.values(), self.top_k) if candidate.document_id not in self._known
        ]
        if len(unread) > 1:
            with ThreadPoolExecutor(min(_READERS, len(unread)), thread_name_prefix="context") as pool:
                list(pool.map(self._text, unread))


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


def lead_documents(scored: Sequence[T], read: Callable[[T], tuple[str, float]]) -> list[T]:
    """Move the best chunk of each document that is nearly as good as the best one to the front.

    scored: best first; read: document and score of one.
    """
    leading: list[T] = []
    trailing: list[T] = []
    documents: set[str] = set()
    for entry in scored:
        document, score = read(entry)
        leads = document not in documents and score >= float(LEAD) * read(scored[0])[1]
        documents.add(document)
        (leading if leads else trailing).append(entry)
    return leading + trailing


def _order(pick: Pick) -> tuple[float, str, int]:
    return -pick.score, pick.candidate.document_id, pick.candidate.index


def apply_recency(hits: Sequence[Hit], recency: Recency) -> list[Hit]:
    """Return the hits with recency applied to their new scores, best first."""
    weighed = [
        replace(hit, score=(1 - recency.weight) * hit.score + recency.weight * (hit.recency or 0.0)) for hit in hits
    ]
    return sorted(weighed, key=lambda hit: -hit.score)


def _grow(better: Pick, worse: Pick, others: Sequence[Pick], expansion: Expansion) -> None:
    """Have the better hit's context cover both, if it may be so large and meets no third one."""
    text, limit = better.text, expansion.max_tokens
    if text is None:
        return
    both = min(better.part[0], worse.part[0]), max(better.part[1], worse.part[1])
    span = min(better.span[0], worse.span[0]), max(better.span[1], worse.span[1])
    part = both if text.fits(both, limit) else text.around(span, expansion.unit, limit, both)
    covers = part[0] <= span[0] and span[1] <= part[1]
    if covers and text.fits(part, limit) and not any(_overlap(part, neighbour.part) for neighbour in others):
        better.part, better.span = part, span


def _overlap(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _instant(stamp: str | None) -> datetime | None:
    """The moment that a document's properties tell, None for none and for what is no date."""
    try:
        moment = datetime.fromisoformat(stamp or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
