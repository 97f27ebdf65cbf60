"""An edit costs what it changes: the texts that the model is asked for when one part of a long document is edited."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from tests.flows.ingestion.test_pipeline import house  # noqa: F401
from tests.standins.edited_texts import CHUNKS, EDITS, KINDS, edited

PLACES = 2
"""Of each edit, each on top of those before it."""


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
        before = len(house.model.texts)
        parts = edited(parts, edit, kind, chance)
        house.ingest(text := kind.between.join(parts), "long")
        costs[edit].append(len(house.model.texts) - before)
    assert all(content in text for content in house.contents())
    assert set(costs["two words"]) <= {1, 2}
    assert max(costs["move"]) <= 5, "a move is a removal and an insertion"
    assert max(max(cost) for edit, cost in costs.items() if edit != "move") <= 3, costs
    assert median(one for cost in costs.values() for one in cost) <= 2, costs
