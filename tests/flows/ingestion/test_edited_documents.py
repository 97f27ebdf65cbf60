"""Embedding requests after an edit of one part of a long document."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from tests.flows.ingestion.test_pipeline import house  # noqa: F401
from tests.standins.edited_texts import CHUNKS, EDITS, KINDS, edited

# Places of each edit, cumulative.
PLACES = 2


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_an_edit_costs_at_most_three_embeddings_of_two_hundred_and_a_move_five(house, name):  # noqa: F811
    house.model.max_tokens = 254
    kind, chance = KINDS[name], Random(name)
    parts = [kind.part(chance) for _ in range(kind.parts)]
    house.ingest(text := kind.between.join(parts), "long")
    assert len(house.contents()) >= CHUNKS
    costs: dict[str, list[int]] = {edit: [] for edit in EDITS}
    for edit in EDITS * PLACES:
        embedded_before = len(house.model.texts)
        parts = edited(parts, edit, kind, chance)
        house.ingest(text := kind.between.join(parts), "long")
        costs[edit].append(len(house.model.texts) - embedded_before)
    assert all(content in text for content in house.contents())
    assert set(costs["two words"]) <= {1, 2}
    assert max(costs["move"]) <= 5, "a move is a removal and an insertion"
    assert max(max(cost) for edit, cost in costs.items() if edit != "move") <= 3, costs
    assert median(embedded for cost in costs.values() for embedded in cost) <= 2, costs
