"""Finished work of a step survives the loss of its process."""

import dataclasses
import time

import pytest

from connectors.embedders.local import MiniLM
from retrieval.ingestion import chunk, embed, poison_detection
from retrieval.ingestion import parse as parsing
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import batches
from retrieval.ports import Parsed
from tests.flows.ingestion.test_pipeline import CountingModel, house, paragraphs  # noqa: F401  (a fixture)

NAMES = ("a.txt", "b.txt", "c.txt", "poison.txt")
# Seconds on the last document before the loss.
LONG_SECONDS = 2.5


class Lost(BaseException):
    """Stands for the death of the process; our code catches no BaseException."""


class DyingParser:
    """Parse all but the last document, then die."""

    def parse(self, raw, _ocr, _goes_on):
        if raw.name == NAMES[-1]:
            time.sleep(LONG_SECONDS)
            raise Lost
        return Parsed(f"Text of {raw.name}.", raw.name, ())


class DyingTokenizer:
    """Take a second per document and die at the last."""

    name = "dying"

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def spans(self, texts):
        if any(NAMES[-1] in text for text in texts):
            raise Lost
        time.sleep(LONG_SECONDS / 2)
        return self._tokenizer.spans(texts)


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


def begun(house, texts):  # noqa: F811
    """Batch of fetched documents and its only window."""
    for name, text in texts.items():
        house.post(text, name)
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    house.steps(lease, window, until="fetch")
    return lease, window


def read_stages(house, lease):  # noqa: F811
    """Stage and crash record of each document."""
    rows = house.db.rows(
        "select d.name, d.stage, d.blame from run_documents d join job_runs r on r.id = d.job_run_id"
        " where r.batch_id = %(batch)s order by r.number",
        {"batch": lease.batch_id},
    )
    return {row["name"]: (row["stage"], row["blame"]) for row in rows}


def lose(house):  # noqa: F811
    """The process died; the next attempt's lease."""
    (batch,) = batches.open_batches(house.db)
    poison_detection.restart_batch(house.db, batch, weight=poison_detection.DEATH_BLAME)
    return house.lease()


def test_what_was_parsed_beside_a_file_that_kills_its_process_stays_parsed(house):  # noqa: F811
    lease, window = begun(house, dict.fromkeys(NAMES, "raw"))
    uploaded = dataclasses.replace(lease, source="LOCAL_FILE")
    with pytest.raises(Lost):
        parsing.parse_documents(house.db, uploaded, window, house.files, DyingParser(), ring=house.ring)
    assert {name: stage for name, (stage, _) in read_stages(house, lease).items()} == {
        **dict.fromkeys(NAMES[:-1], "parsed"),
        NAMES[-1]: "fetched",
    }


def test_what_was_cut_before_a_text_that_kills_its_process_stays_cut(house):  # noqa: F811
    lease, window = begun(house, {name: f"This is {name}." for name in NAMES})
    house.steps(lease, window, until="parse")
    with pytest.raises(Lost):
        chunk.chunk_documents(house.db, lease, window, house.files, DyingTokenizer(house.tokenizer), house.model)
    kept_names = [name for name, (stage, _) in read_stages(house, lease).items() if stage == "chunked"]
    assert kept_names[:2] == list(NAMES[:2])


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
