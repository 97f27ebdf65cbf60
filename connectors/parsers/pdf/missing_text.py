"""Insertion of words missing in a page's Markdown from the text layer."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

_PAGE_WORD = re.compile(r"[^\W_]+")
_ACCENT_PATTERN = re.compile("[\u0300-\u036f]")
# Accents apart from their letter, as the fonts of TeX draw them.
_SPACING_ACCENT = re.compile("[\u02c6\u02c7\u02d8-\u02dd\u00a8\u00af\u00b4]")
# Above this share of missing letters, the layout is wrong as a whole.
_TOLERABLE_LOSS = 0.2
# Minimum share of PDFium's word pairs in the Markdown, for pages without a table.
_MIN_AGREEMENT = 0.5
# Minimum letters of a word that is found within others, as after a division or in a formula.
_MIN_INNER_LETTERS = 4
# A sign of a formula or mark in a chart: one letter, or Greek and Latin letters.
_FORMULA_WORD = re.compile(r"[^\W\d]|(?=.*[a-z])(?=.*[\u03b1-\u03c9]).*")
_MIN_RISING_LINES = 2
# Letters and digits that locate a line in the Markdown.
_ANCHOR_LENGTH, _MIN_ANCHOR_LENGTH = 24, 6


def add_missing_lines(markdown: str, text: str) -> str:
    """Return the Markdown with missing lines of the text layer, each after the block of the previous line.

    Returns the text layer if the two differ as a whole.
    """
    markdown_words, text_words = Counter(page_words(markdown)), Counter(page_words(text))
    missing = _missing_words(text_words, markdown_words, markdown)
    share = count_letters(missing) / max(count_letters(text_words), 1)
    if share > _TOLERABLE_LOSS or (
        "\n|" not in f"\n{markdown}" and _word_order_agreement(markdown, text) < _MIN_AGREEMENT
    ):
        return text
    if not missing:
        return markdown
    insertions: dict[int, list[str]] = {}
    for position, line in _missing_lines(text, missing, markdown, markdown_words):
        insertions.setdefault(position, []).append(line)
    pieces, last = list[str](), 0
    for position, lines in sorted(insertions.items()):
        pieces += [markdown[last:position].strip("\n"), "\n".join(lines)]
        last = position
    return "\n\n".join(filter(None, [*pieces, markdown[last:].strip("\n")]))


def page_words(text: str) -> Sequence[str]:
    return _PAGE_WORD.findall(_fold(text))


def solid_text(text: str) -> str:
    return "".join(page_words(text))


def count_letters(words: Mapping[str, int]) -> int:
    return sum(len(word) * count for word, count in words.items())


def _fold(text: str) -> str:
    """Remove case and accents."""
    if text.isascii():
        return text.casefold()
    return _ACCENT_PATTERN.sub("", unicodedata.normalize("NFKD", _SPACING_ACCENT.sub("", text))).casefold()


def _missing_words(text_words: Counter[str], markdown_words: Counter[str], markdown: str) -> Counter[str]:
    solid = ""
    missing: Counter[str] = Counter()
    for word, count in (text_words - markdown_words).items():
        if not word.isdecimal() and _is_divided(word, markdown_words):
            continue
        solid = solid or solid_text(markdown)
        if word.isdecimal() or len(word) < _MIN_INNER_LETTERS or solid.count(word) < text_words[word]:
            missing[word] = count
    return missing


def _is_divided(word: str, words: Counter[str]) -> bool:
    """Check for the word in two parts: PDFium joins words close together."""
    return any(word[:position] in words and word[position:] in words for position in range(1, len(word)))


def _word_order_agreement(markdown: str, text: str) -> float:
    neighbours = set(pairwise(page_words(markdown)))
    pairs = [pair for line in text.split("\n") for pair in pairwise(page_words(line))]
    return sum(pair in neighbours for pair in pairs) / len(pairs) if pairs else 1.0


def _missing_lines(
    text: str, missing: Counter[str], markdown: str, markdown_words: Counter[str]
) -> Iterator[tuple[int, str]]:
    """Yield the lines with missing words, each with its position in the Markdown."""
    solid, offsets = _index_words(markdown)
    lines = [(line.strip(), page_words(line)) for line in text.split("\n")]
    page = [word for _, words in lines for word in words]
    solid_page, joined = "".join(page), markdown_words - Counter(page)
    lost_words, start = list[list[str]](), 0
    for _, words in lines:
        lost_words.append(_lost_words(page, range(start, start + len(words)), missing, solid, joined))
        start += len(words)
    numbered = _numbered_lines([words for _, words in lines], lost_words)
    position = anchor = 0
    for number, (line, words) in enumerate(lines):
        letters = "".join(words)
        is_long = len(letters) >= _MIN_ANCHOR_LENGTH
        lost = [word for word in lost_words[number] if missing[word] > 0]
        if lost and number not in numbered and not (is_long and solid.count(letters) >= solid_page.count(letters)):
            missing -= Counter(words)
            yield position, line
        elif is_long:
            end = letters[-_ANCHOR_LENGTH:]
            position = solid.find(end, anchor)
            position = position if position >= 0 else solid.find(end)
            if position >= 0:
                anchor = position + len(end)
                position = _block_end(markdown, offsets[anchor - 1])


def _lost_words(
    words: Sequence[str], line: range, missing: Counter[str], solid: str, joined: Counter[str]
) -> list[str]:
    """Return the missing words of a line, except words found in the Markdown between the same neighbours."""
    lost: list[str] = []
    for index in line:
        word = words[index]
        if missing[word] <= 0 or _FORMULA_WORD.fullmatch(word):
            continue
        previous, following = "".join(words[max(0, index - 1) : index]), "".join(words[index + 1 : index + 2])
        around = f"{previous}{word}{following}"
        is_joined = previous + word in joined or word + following in joined
        if not is_joined and (len(around) < _MIN_ANCHOR_LENGTH or not _holds(solid, around)):
            lost.append(word)
    return lost


def _holds(solid: str, words: str) -> bool:
    """Check for words that begin and end with whole numbers."""
    start, end = (r"(?<!\d)" if words[0].isdigit() else ""), (r"(?!\d)" if words[-1].isdigit() else "")
    return words in solid and bool(re.search(f"{start}{words}{end}", solid))


def _numbered_lines(lines: Sequence[Sequence[str]], lost_words: Sequence[Sequence[str]]) -> set[int]:
    """Return the lines with only a rising number missing at the start: line numbers, left out on purpose."""
    starts = [
        (at, int(words[0]))
        for at, (words, lost) in enumerate(zip(lines, lost_words, strict=True))
        if len(words) > 1 and [*lost] == [words[0]] and words[0].isdecimal()
    ]
    rising = sum(first < second for (_, first), (_, second) in pairwise(starts))
    return {at for at, _ in starts} if rising >= max(_MIN_RISING_LINES, len(starts) / 2) else set()


def _block_end(markdown: str, offset: int) -> int:
    """Return the end of the paragraph, table or listing at an offset."""
    if markdown.count("```", 0, offset) % 2:
        end = markdown.find("```", offset)
        return end + 3 if end >= 0 else len(markdown)
    end = markdown.find("\n\n", offset)
    return end if end >= 0 else len(markdown)


def _index_words(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, and the offset of each."""
    letters, offsets = list[str](), list[int]()
    for match in _PAGE_WORD.finditer(text):
        word = _fold(match[0])
        letters.append(word)
        if len(word) == len(match[0]):
            offsets += range(match.start(), match.end())
        else:  # ligatures are several letters
            offsets += (min(match.start() + at, match.end() - 1) for at in range(len(word)))
    return "".join(letters), offsets
