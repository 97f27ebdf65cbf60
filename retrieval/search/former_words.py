"""How words were indexed before: a query is read so besides, until its partition has been indexed again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from retrieval.search.folding import unaccented
from retrieval.search.word_lists import UNACCENTED
from retrieval.search.words import CHARACTERS, UNSPACED, Prepared, grouped, pairs, respelled, without

_JOINED: Final = re.compile(r"(?<![^\W_])[^\W_]+(?:[-\u2010\u2011\u2013._/:@][^\W_]+)+")
_DECIMAL: Final = re.compile(r"\d+\.\d+")
_PARTS, _LONGEST = 6, 64


def of_query(text: str, configuration: str, dropped: Iterable[str] = ()) -> Prepared:
    """As `words.of_query`, for what was indexed by the former rules."""
    terms: Counter[str] = Counter()
    plain = unaccented(without(text, dropped)[:CHARACTERS])
    plain = grouped(UNSPACED.sub(lambda run: pairs(run[0], terms), plain))
    plain = without(_JOINED.sub(lambda match: _parts(match[0], terms), plain), UNACCENTED.get(configuration, ()))
    return respelled(text, plain[:CHARACTERS], terms)


def _parts(match: str, terms: Counter[str]) -> str:
    if _DECIMAL.fullmatch(match):
        return match
    parts = [part for part in re.split(r"[^\w]|_", match) if part]
    joined = "".join(parts)
    if len(parts) > _PARTS or len(joined) > _LONGEST:
        return " ".join(parts)
    if joined.isalpha():
        return f"{' '.join(parts)} {joined}"
    terms[joined.lower()] += 1
    return " ".join(parts)
