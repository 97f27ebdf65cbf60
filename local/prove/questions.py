"""Questions that are made from documents: of titles, headings, table rows and first sentences, in other words where
that is possible: without stop words, five to eight content words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from retrieval.keywords.word_lists import STOP_WORDS

LEAST, MOST = 4, 8
OF_A_KIND = 3
"""Questions of one kind that a document gives at most."""
_WORD = re.compile(r"[^\W_]+(?:[.'\u2019/-][^\W_]+)*")
_HEADING = re.compile(r"^#{1,6} +(.+)$")
_RULE = re.compile(r"[\s|:-]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its kind, the document that answers it, and the cells of the row that it asks for."""

    kind: str
    text: str
    document: str
    cells: tuple[str, ...] = ()


def make_questions(texts: Mapping[str, str], most: int) -> list[Question]:
    """At most `most` questions, spread over the documents; one that several documents would answer is left out."""
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
    return [question for _, question in sorted(ordered, key=lambda pair: pair[0])][:most]


def _list_questions(name: str, text: str) -> Iterator[Question]:
    stops = _choose_stop_words(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headings = [number for number, line in enumerate(lines) if _HEADING.match(line)]
    stem = PurePath(name).stem
    title = _HEADING.sub(r"\1", lines[headings[0]]) if headings else re.sub(r"[_-]+", " ", stem)
    kinds: dict[str, list[tuple[str, tuple[str, ...]]]] = {
        "title": [(_ask(title, " ".join(lines[:3]), stops), ())],
        "heading": [
            (_ask(_HEADING.sub(r"\1", lines[number]), lines[number + 1] if number + 1 < len(lines) else "", stops), ())
            for number in headings[1:]
        ],
        "first sentence": [(_ask(sentence, "", stops), ()) for sentence in _list_sentences(lines)],
        "table row": [(_join(_list_words(label, stops)[:MOST]), cells) for label, cells in _list_rows(lines)],
    }
    for kind, questions in kinds.items():
        yield from [Question(kind, ask, name, cells) for ask, cells in questions if ask][:OF_A_KIND]


def _choose_stop_words(text: str) -> frozenset[str]:
    """Stop words of the language that has most words of the text among them."""
    counts = Counter(_fold(word) for word in _WORD.findall(text[:20_000]))
    return max(STOP_WORDS.values(), key=lambda stops: sum(counts[word] for word in stops))


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _list_words(text: str, stops: frozenset[str]) -> list[str]:
    """Content words in their order, each once."""
    words = {word.lower(): word for word in reversed(_WORD.findall(text)) if _fold(word) not in stops}
    return [word for word in reversed(words.values()) if len(word) > 1]


def _ask(text: str, beside: str, stops: frozenset[str]) -> str:
    """Content words of a text, filled up from what is beside it; empty if there are too few."""
    words = _list_words(text, stops)[:MOST]
    if len(words) < LEAST:
        words = _list_words(f"{text} {beside}", stops)[: LEAST + 1]
    return _join(words) if len(words) >= LEAST else ""


def _join(words: Sequence[str]) -> str:
    return " ".join(words)


def _list_sentences(lines: Sequence[str]) -> Iterator[str]:
    """First sentences of paragraphs, from the second half of the text as from the first."""
    paragraphs = [line for line in lines if len(line) > 60 and line[0] not in "#|-*`<>"]
    for paragraph in paragraphs[:: max(len(paragraphs) // OF_A_KIND, 1)]:
        yield _SENTENCE_END.split(paragraph, maxsplit=1)[0]


def _list_rows(lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows of tables with words that name only this row, and the name of another column."""
    table: list[tuple[str, ...]] = []
    for line in (*lines, ""):
        if line.startswith("|"):
            if not _RULE.fullmatch(line):
                table.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
            continue
        yield from _choose_rows(table)
        table = []


def _choose_rows(table: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    header, rows = (table[0], table[1:]) if len(table) > 3 else ((), ())
    labels = Counter(row[:2] for row in rows)
    usable = [row for row in rows if len(row) > 2 and len(row) == len(header) and labels[row[:2]] == 1]
    for row in usable[:: max(len(usable) // OF_A_KIND, 1)]:
        if row[0] and any(map(str.isalpha, "".join(row[:2]))):
            yield f"{header[-1]} {row[0]} {row[1]}", tuple(cell for cell in row if cell)
