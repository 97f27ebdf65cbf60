"""Contexts of hits: exact offsets, never more tokens than allowed, nothing shown twice."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for
from retrieval.search.context_expansion import Expansion, ParsedText, Texts, Unit
from retrieval.search.queries import Candidate
from retrieval.search.result_selection import Recency, ResultSelector, Shape

TOKENIZER = tokenizer_for("LOCAL", MINILM_MODEL)
MANUAL = """# Manual

Read this first.

## Cover

Turn the key to the left. The cover opens.

### Spare keys

Ask the office for one.

## Battery

```sh
# not a heading
charge --all
```

Charge it overnight."""
TEXT_PARTS = [
    "wing ",
    "Grenzschicht ",
    "café ",
    "層流 ",
    "😀 ",
    "\n\n",
    "\n## Heading\n",
    "AB-1234. ",
    "    ",
    "x" * 70,
    "นำไป ",
    "한글",
]
texts = st.lists(st.sampled_from(TEXT_PARTS), min_size=5, max_size=120).map("".join).filter(str.strip)


def count(text):
    return len(TOKENIZER.spans([text])[0])


def expand_passage(text, passage, unit, max_tokens=512, pages=()):
    position = text.index(passage)
    start, end = ParsedText(text, pages, TOKENIZER).expand_around((position, position + len(passage)), unit, max_tokens)
    return text[start:end]


def row(document, text, start, end, score, index=0, **fields):
    parts = {"semantic": score, "keyword": 0.0, "score": score, "semantic_rank": None, "keyword_rank": None}
    parts |= {"best_semantic": score, "mean_best_semantic": score, "best_keyword": 0.0}
    location = {"id": index, "document_id": document, "index": index, "start": start, "end": end, "parsed_key": text}
    times = {"modified_at": None, "created_at": datetime.now(UTC)}
    return Candidate(**parts, **location, **{**times, **fields}, pages=[])


def shaper(top_k=10, threshold=0.0, **shape):
    return ResultSelector(Shape(**shape), top_k, threshold, Texts(TOKENIZER, lambda key: key))


def contexts(picks):
    return [(pick.candidate.document_id, *pick.context_range) for pick in picks]


def test_each_unit_is_what_surrounds_the_hit():
    assert expand_passage(MANUAL, "cover opens", Unit.CHUNK) == "cover opens"
    section = expand_passage(MANUAL, "cover opens", Unit.SECTION)
    assert section.startswith("## Cover")
    assert section.endswith("Ask the office for one.")
    assert expand_passage(MANUAL, "office", Unit.SECTION) == "### Spare keys\n\nAsk the office for one."
    assert expand_passage(MANUAL, "overnight", Unit.SECTION) == MANUAL[MANUAL.index("## Battery") :]
    assert expand_passage(MANUAL, "cover opens", Unit.DOCUMENT) == MANUAL
    pages = [0, MANUAL.index("## Cover"), MANUAL.index("## Battery")]
    assert expand_passage(MANUAL, "office", Unit.PAGE, pages=pages) == section
    assert expand_passage(MANUAL, "office", Unit.PAGE) == expand_passage(MANUAL, "office", Unit.SECTION)


@given(text=texts, data=st.data(), unit=st.sampled_from(Unit), max_tokens=st.integers(1, 60))
def test_a_context_holds_the_hit_and_no_more_tokens_than_allowed(text, data, unit, max_tokens):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, min(len(text), start + 120)))
    hit = text[start:end]
    pages = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=3)))
    low, high = ParsedText(text, pages, TOKENIZER).expand_around((start, end), unit, max_tokens)
    assert 0 <= low <= high <= len(text)
    assert count(text[low:high]) <= max_tokens
    # A hit of 120 characters ends within a word as often as not, a chunk does not: half a word may be left out.
    whole = not re.match(r"\w\w", text[end - 1 : end + 1]) and not re.match(
        r"\w\w", text[max(start - 1, 0) : start + 1]
    )
    if whole and hit.strip() and max(map(len, hit.split())) < 30 and count(hit.strip()) <= max_tokens:
        assert hit.strip() in text[low:high]


@given(text=texts, data=st.data(), unit=st.sampled_from(Unit), max_tokens=st.integers(1, 60))
def test_nothing_is_shown_twice(text, data, unit, max_tokens):
    places = data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=12))
    rows = [
        row(f"doc_{location % 2}", text, location, min(len(text), location + 40), 1 - n / 100, n)
        for n, location in enumerate(places)
    ]
    picks = shaper(expansion=Expansion(unit, max_tokens)).pick(rows)
    assert picks
    assert picks[0].candidate is rows[0]
    for n, (document, start, end) in enumerate(contexts(picks)):
        assert count(text[start:end]) <= max_tokens
        for other_document, low, high in contexts(picks)[:n]:
            assert other_document != document or end <= low or high <= start


def test_overlapping_contexts_become_one_that_covers_both_and_the_next_document_moves_up():
    text = " ".join(f"word{n}" for n in range(400))
    first, second = (text.index("word100 "), text.index("word110 ")), (text.index("word105 "), text.index("word118 "))
    rows = [row("a", text, *first, 0.9), row("a", text, *second, 0.8, 1), row("b", text, *first, 0.7)]
    merged = shaper(top_k=2, expansion=Expansion(Unit.CHUNK, 100)).pick(rows)
    assert [pick.candidate.document_id for pick in merged] == ["a", "b"]
    assert merged[0].context_range == (first[0], second[1] - 1)
    tight = shaper(top_k=2, expansion=Expansion(Unit.CHUNK, count(text[slice(*first)]))).pick(rows)
    assert contexts(tight) == [("a", first[0], first[1] - 1), ("b", first[0], first[1] - 1)]


def test_a_text_that_cannot_be_read_now_leaves_the_chunk_itself():
    away = ResultSelector(Shape(expansion=Expansion(Unit.DOCUMENT, 3)), 10, 0.0, Texts(TOKENIZER, lambda _: None))
    [pick] = away.pick([row("a", "key", 7, 30, 0.9)])
    context = away.read_context(pick, SimpleNamespace(content="one two three four five", start=7))
    assert (context.content, context.start, context.end) == ("one two three", 7, 20)


def test_recency_moves_the_new_up_by_its_formula_and_the_threshold_is_on_the_sum():
    current_time = datetime.now(UTC)
    stamps = {"old": current_time - timedelta(days=20), "new": current_time, "future": current_time + timedelta(days=9)}
    rows = [
        row(name, "", 0, 0, 0.8 - n / 10, modified_at=at.isoformat()) for n, (name, at) in enumerate(stamps.items())
    ]
    rows.append(row("no date", "", 0, 0, 0.9, modified_at="last week", created_at=current_time - timedelta(days=10)))
    aged = shaper(recency=Recency(10, 0.5)).pick(rows)
    scores = {pick.candidate.document_id: (round(pick.score, 3), round(pick.recency, 3)) for pick in aged}
    assert scores == {"new": (0.85, 1.0), "future": (0.8, 1.0), "no date": (0.7, 0.5), "old": (0.525, 0.25)}
    assert [pick.candidate.document_id for pick in aged] == list(scores)
    assert len(shaper(threshold=0.75, recency=Recency(10, 0.5)).pick(rows)) == 2
    assert shaper(recency=Recency(5e-324, 1.0)).pick(rows)[-1].score == 0.0
