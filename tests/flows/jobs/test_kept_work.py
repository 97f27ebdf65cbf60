"""Finished work of a step survives the loss of its process."""

import pytest

from connectors.embedders.local import MiniLM
from retrieval.ingestion import embed, poison_detection
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import batches
from tests.flows.ingestion.test_pipeline import CountingModel, house, paragraphs  # noqa: F401  (a fixture)


class Lost(BaseException):
    """Stands for the death of the process; our code catches no BaseException."""


class DyingModel(CountingModel):
    """Die in the second call."""

    batch_size = MiniLM.batch_size

    def __init__(self):
        super().__init__()
        self.asked = 0

    def embed(self, texts, kind):
        self.asked += 1
        if self.asked == 2:
            raise Lost
        return super().embed(texts, kind)


def lose(house):  # noqa: F811
    """The process died; the next attempt's lease."""
    (batch,) = batches.open_batches(house.db)
    poison_detection.restart_batch(house.db, batch, weight=poison_detection.DEATH_BLAME)
    return house.lease()


def test_a_long_document_is_embedded_on_from_where_its_process_was_lost(house):  # noqa: F811
    house.model = DyingModel()
    house.post(paragraphs(200), "long", chunk_size=48, chunk_overlap=0)
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    house.steps(lease, window, until="chunk")
    with pytest.raises(Lost):
        embed.embed_documents(house.db, lease, window, house.model)
    embedded = house.footprint()["embeddings"]
    assert embedded == len(house.model.texts) > 0
    second_lease = lose(house)
    house.steps(second_lease, window, until="embed")
    assert len(house.model.texts) == len(set(house.model.texts)) > embedded
