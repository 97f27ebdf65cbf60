"""Questions from titles, headings, table rows and first sentences of documents, without stop words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from retrieval.keywords.word_lists import STOP_WORDS

MIN_WORDS, MAX_WORDS = 4, 8
QUESTIONS_PER_KIND = 3
_WORD_PATTERN = re.compile(r"[^\W_]+(?:[.'\u2019/-][^\W_]+)*")
_HEADING_PATTERN = re.compile(r"^#{1,6} +(.+)$")
_RULE_PATTERN = re.compile(r"[\s|:-]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s")


@dataclass(frozen=True, slots=True)
class Question:
    """Question of a kind, with the answering document and, for a row, its cells."""

    kind: str
    text: str
    document: str
    cells: tuple[str, ...] = ()


def make_questions(texts: Mapping[str, str], limit: int) -> list[Question]:
    """Return at most `limit` questions, spread over documents; ambiguous questions are omitted."""
    candidates = [question for name, text in texts.items() for question in _list_questions(name, text)]
    owners: dict[str, set[str]] = {}
    for question in candidates:
        owners.setdefault(question.text.lower(), set()).add(question.document)
    unique = list({q.text.lower(): q for q in candidates if len(owners[q.text.lower()]) == 1}.values())
    turns: Counter[str] = Counter()
    ordered = []
    for question in unique:
        ordered.append((turns[question.document], question))
        turns[question.document] += 1
    return [question for _, question in sorted(ordered, key=lambda pair: pair[0])][:limit]


def _list_questions(name: str, text: str) -> Iterator[Question]:
    stops = _choose_stop_words(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headings = [number for number, line in enumerate(lines) if _HEADING_PATTERN.match(line)]
    stem = PurePath(name).stem
    title = _HEADING_PATTERN.sub(r"\1", lines[headings[0]]) if headings else re.sub(r"[_-]+", " ", stem)
    kinds: dict[str, list[tuple[str, tuple[str, ...]]]] = {
        "title": [(_make_question(title, " ".join(lines[:3]), stops), ())],
        "heading": [
            (
                _make_question(
                    _HEADING_PATTERN.sub(r"\1", lines[number]),
                    lines[number + 1] if number + 1 < len(lines) else "",
                    stops,
                ),
                (),
            )
            for number in headings[1:]
        ],
        "first sentence": [(_make_question(sentence, "", stops), ()) for sentence in _list_sentences(lines)],
        "table row": [
            (_join_words(_list_words(label, stops)[:MAX_WORDS]), cells) for label, cells in _list_rows(lines)
        ],
    }
    for kind, questions in kinds.items():
        yield from [Question(kind, ask, name, cells) for ask, cells in questions if ask][:QUESTIONS_PER_KIND]


def _choose_stop_words(text: str) -> frozenset[str]:
    """Return the stop words of the best matching language."""
    counts = Counter(_fold(word) for word in _WORD_PATTERN.findall(text[:20_000]))
    return max(STOP_WORDS.values(), key=lambda stops: sum(counts[word] for word in stops))


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _list_words(text: str, stops: frozenset[str]) -> list[str]:
    """Return distinct content words in order."""
    words = {word.lower(): word for word in reversed(_WORD_PATTERN.findall(text)) if _fold(word) not in stops}
    return [word for word in reversed(words.values()) if len(word) > 1]


def _make_question(text: str, context: str, stops: frozenset[str]) -> str:
    """Return the content words of a text, extended from its context; "" for too few."""
    words = _list_words(text, stops)[:MAX_WORDS]
    if len(words) < MIN_WORDS:
        words = _list_words(f"{text} {context}", stops)[: MIN_WORDS + 1]
    return _join_words(words) if len(words) >= MIN_WORDS else ""


def _join_words(words: Sequence[str]) -> str:
    return " ".join(words)


def _list_sentences(lines: Sequence[str]) -> Iterator[str]:
    """Yield first sentences of paragraphs, spread over the text."""
    paragraphs = [line for line in lines if len(line) > 60 and line[0] not in "#|-*`<>"]
    for paragraph in paragraphs[:: max(len(paragraphs) // QUESTIONS_PER_KIND, 1)]:
        yield _SENTENCE_END.split(paragraph, maxsplit=1)[0]


def _list_rows(lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield table rows with identifying words and the name of another column."""
    table: list[tuple[str, ...]] = []
    for line in (*lines, ""):
        if line.startswith("|"):
            if not _RULE_PATTERN.fullmatch(line):
                table.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
            continue
        yield from _choose_rows(table)
        table = []


def _choose_rows(table: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    header, rows = (table[0], table[1:]) if len(table) > 3 else ((), ())
    labels = Counter(row[:2] for row in rows)
    usable = [row for row in rows if len(row) > 2 and len(row) == len(header) and labels[row[:2]] == 1]
    for row in usable[:: max(len(usable) // QUESTIONS_PER_KIND, 1)]:
        if row[0] and any(map(str.isalpha, "".join(row[:2]))):
            yield f"{header[-1]} {row[0]} {row[1]}", tuple(cell for cell in row if cell)
