"""What a step had done when its process was lost is not done again."""

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
LONG_SECONDS = 2.5
"""For which the last document is worked on before the process is lost."""


class Lost(BaseException):
    """Stands for the loss of the process: no code of ours catches it."""


class DyingParser:
    """Reads all but the last document at once; over that one the process is lost."""

    def parse(self, raw, _ocr, _goes_on):
        if raw.name == NAMES[-1]:
            time.sleep(LONG_SECONDS)
            raise Lost
        return Parsed(f"Text of {raw.name}.", raw.name, ())


class DyingTokenizer:
    """Takes a second for each document; over the last one the process is lost."""

    name = "dying"

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def spans(self, texts):
        if any(NAMES[-1] in text for text in texts):
            raise Lost
        time.sleep(LONG_SECONDS / 2)
        return self._tokenizer.spans(texts)


class DyingModel(CountingModel):
    """Is lost in its second call, and asked in calls as large as those of the model that runs here."""

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
    """A batch of documents, begun up to their fetching, and its only window."""
    for name, text in texts.items():
        house.post(text, name)
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    house.steps(lease, window, until="fetch")
    return lease, window


def seen(house, lease):  # noqa: F811
    """How far each document is, and what is held against it."""
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
    assert {name: stage for name, (stage, _) in seen(house, lease).items()} == {
        **dict.fromkeys(NAMES[:-1], "parsed"),
        NAMES[-1]: "fetched",
    }


def test_what_was_cut_before_a_text_that_kills_its_process_stays_cut(house):  # noqa: F811
    lease, window = begun(house, {name: f"This is {name}." for name in NAMES})
    house.steps(lease, window, until="parse")
    with pytest.raises(Lost):
        chunk.chunk_documents(house.db, lease, window, house.files, DyingTokenizer(house.tokenizer), house.model)
    kept = [name for name, (stage, _) in seen(house, lease).items() if stage == "chunked"]
    assert kept[:2] == list(NAMES[:2])


def test_a_long_document_is_embedded_on_from_where_its_process_was_lost(house):  # noqa: F811
    house.model = DyingModel()
    house.post(paragraphs(200), "long", chunk_size=48, chunk_overlap=0)
    lease = house.lease()
    (window,) = run_documents.list_windows(house.db, lease, documents=64, size=1 << 24)
    house.steps(lease, window, until="chunk")
    with pytest.raises(Lost):
        embed.embed_documents(house.db, lease, window, house.model)
    kept = house.footprint()["embeddings"]
    assert kept == len(house.model.texts) > 0
    again = lose(house)
    house.steps(again, window, until="embed")
    assert len(house.model.texts) == len(set(house.model.texts)) > kept
