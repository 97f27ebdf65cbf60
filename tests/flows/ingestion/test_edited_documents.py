"""Embeddings of a long document after an edit of one part."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from tests.flows.configured import Configured
from tests.flows.ingestion.test_pipeline import contents, footprint
from tests.standins.edited_texts import CHUNKS, EDITS, KINDS, edited

# Places of each edit, cumulative.
PLACES = 2


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_an_edit_costs_at_most_three_embeddings_of_two_hundred_and_a_move_five(db, name):
    space = Configured(db, embeddingModelConfig={"provider": "LOCAL", "model": "all-MiniLM-L6-v2"})
    kind, chance = KINDS[name], Random(name)
    parts = [kind.part(chance) for _ in range(kind.parts)]

    def ingest():
        """Ingest the parts; return the text and the number of new embeddings."""
        text, embedded_before = kind.between.join(parts), footprint(space)["embeddings"]
        space.text(text, "long")
        space.work()
        return text, footprint(space)["embeddings"] - embedded_before

    ingest()
    assert len(contents(space)) >= CHUNKS
    costs: dict[str, list[int]] = {edit: [] for edit in EDITS}
    for edit in EDITS * PLACES:
        parts = edited(parts, edit, kind, chance)
        text, cost = ingest()
        costs[edit].append(cost)
    assert all(content in text for content in contents(space))
    assert set(costs["two words"]) <= {1, 2}
    assert max(costs["move"]) <= 5, "a move is a removal and an insertion"
    assert max(max(cost) for edit, cost in costs.items() if edit != "move") <= 3, costs
    assert median(embedded for cost in costs.values() for embedded in cost) <= 2, costs
