"""Shaping of hits: recency, a limit per document, and context expansion.

    final = (1 - weight) * score + weight * 0.5 ** (age / half-life)        the threshold applies to it

Candidates are processed best first. One whose context overlaps that of a better hit of its document is dropped for the
next candidate; the better hit's context then covers both if it fits into the token limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from retrieval.database.database import Row
from retrieval.ports import Tokenizer
from retrieval.search.contexts import ParsedText, Range, Unit

if TYPE_CHECKING:
    from retrieval.search.search import Hit

_READERS = 8
"""Files that are read at once."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Recency:
    """Weight of a document's age, from 0 to 1, and the days in which its part halves."""

    half_life_days: float
    weight: float

    def part(self, row: Row, now: datetime) -> float:
        """1 for what was modified now or later, one half after each half-life."""
        age = (now - (_instant(row["modified_at"]) or row["created_at"])).total_seconds() / _DAY
        return math.pow(0.5, max(age, 0.0) / self.half_life_days)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Context around a hit, with a token limit."""

    unit: Unit
    max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Texts:
    """Source of contexts. `read`: returns a parsed text by its key, None if it cannot be read."""

    tokenizer: Tokenizer
    read: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Context:
    """A part of the parsed document: `parsed[start:end] == content`."""

    content: str
    start: int
    end: int


@dataclass(slots=True)
class Pick:
    """A candidate that is shown: its final score, the part that its age gave it, and its context."""

    row: Row
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

    def pick(self, rows: Sequence[Row]) -> list[Pick]:
        """The `top_k` best at most. rows: candidates of `hydration.candidates`, best first."""
        ordered = self._scored(rows)
        if self.shape.expansion is not None:
            self._prefetch(ordered)
        picked: list[Pick] = []
        counts: dict[str, int] = {}
        for pick in ordered:
            document = pick.row["document_id"]
            if self.shape.per_document is not None and counts.get(document, 0) >= self.shape.per_document:
                continue
            if self.shape.expansion is not None and not self._place(pick, picked, self.shape.expansion):
                continue
            picked.append(pick)
            counts[document] = counts.get(document, 0) + 1
            if len(picked) == self.top_k:
                break
        return picked

    def context(self, pick: Pick, shown: Row) -> Context | None:
        """Return the context of a pick, if requested; of its chunk alone if the parsed text could not be read."""
        expansion = self.shape.expansion
        if expansion is None or self.texts is None:
            return None
        if pick.text is not None:
            start, end = pick.part
            return Context(pick.text.text[start:end], start, end)
        alone = ParsedText(shown["content"], (), self.texts.tokenizer)
        start, end = alone.around((0, len(alone.text)), Unit.CHUNK, expansion.max_tokens)
        return Context(alone.text[start:end], shown["start"] + start, shown["start"] + end)

    def _scored(self, rows: Sequence[Row]) -> list[Pick]:
        recency = self.shape.recency
        if recency is None:
            return [Pick(row, row["score"]) for row in rows if row["score"] >= self.threshold]
        picks: list[Pick] = []
        for row in rows:
            part = recency.part(row, self.now)
            picks.append(Pick(row, (1 - recency.weight) * row["score"] + recency.weight * part, part))
        picks.sort(key=lambda pick: (-pick.score, pick.row["document_id"], pick.row["index"]))
        return [pick for pick in picks if pick.score >= self.threshold]

    def _place(self, pick: Pick, picked: Sequence[Pick], expansion: Expansion) -> bool:
        """Find the context of a candidate; False if it belongs to a better hit's."""
        pick.text = self._text(pick.row)
        if pick.text is None:
            return True
        pick.span = pick.text.trimmed(pick.row["start"], pick.row["end"])
        same = [neighbour for neighbour in picked if neighbour.text is pick.text]
        if any(neighbour.part[0] <= pick.span[0] and pick.span[1] <= neighbour.part[1] for neighbour in same):
            return False  # it is shown there already; finding its own context would count thousands of tokens
        pick.part = pick.text.around(pick.span, expansion.unit, expansion.max_tokens)
        better = next((neighbour for neighbour in same if _overlap(neighbour.part, pick.part)), None)
        if better is None:
            return True
        _grow(better, pick, [neighbour for neighbour in same if neighbour is not better], expansion)
        return False

    def _text(self, row: Row) -> ParsedText | None:
        """None, and no context, if the parsed text cannot be read now."""
        document = row["document_id"]
        if document not in self._known and self.texts is not None:
            text = self.texts.read(row["parsed_key"]) if row["parsed_key"] else None
            whole = text is not None and row["end"] <= len(text)
            self._known[document] = ParsedText(text, row["pages"], self.texts.tokenizer) if text and whole else None
        return self._known.get(document)

    def _prefetch(self, ordered: Sequence[Pick]) -> None:
        """Read the texts of the documents that will probably be shown, several at once."""
        first: Mapping[str, Row] = {
            row["document_id"]: row for row in _firsts(ordered, self.top_k) if row["document_id"] not in self._known
        }
        if len(first) > 1:
            with ThreadPoolExecutor(min(_READERS, len(first)), thread_name_prefix="context") as pool:
                list(pool.map(self._text, first.values()))


def aged(hits: Sequence[Hit], recency: Recency) -> list[Hit]:
    """Return the hits with recency applied to their new scores, best first."""
    weighed = [
        replace(hit, score=(1 - recency.weight) * hit.score + recency.weight * (hit.recency or 0.0)) for hit in hits
    ]
    return sorted(weighed, key=lambda hit: -hit.score)


def _firsts(ordered: Sequence[Pick], count: int) -> Iterator[Row]:
    """The best candidate of each of the first so many documents."""
    document_ids: set[str] = set()
    for pick in ordered:
        if pick.row["document_id"] not in document_ids:
            document_ids.add(pick.row["document_id"])
            yield pick.row
        if len(document_ids) == count:
            return


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
