"""Deleted items leave both searches at once and every store in time."""

import pytest

from connectors import registry
from retrieval.ports import Page, RawContent, SourceItem
from tests.flows.crawling import accept, listing

SITE = "https://example.org"
OWLS, BATS = f"{SITE}/owls", f"{SITE}/bats"
TEXTS = {OWLS: "Owls hunt mice at night over the fields.", BATS: "Bats hunt moths in the dark over ponds."}
BY_WORDS = {"semantic_weight": 0.0, "keyword_weight": 1.0}


class Memory:
    """Source with scripted listings and contents from a dict."""

    def __init__(self):
        self.items = []

    def discover(self, _request, _cursor):
        yield Page(self.items, "1", done=True)

    def fetch(self, item, _request, to):
        to.write_text(TEXTS[item.external_id])
        return RawContent(to, item.name, "text/plain", to.stat().st_size)


@pytest.fixture
def memory(monkeypatch):
    source = Memory()
    monkeypatch.setattr(registry, "make_source", lambda *_: source)
    return source


def ingest_items(space, memory, *items):
    """Ingest the listed items; return the job run's id."""
    from flows import steps

    memory.items = items
    run = accept(space, "WEBSITE", url=SITE)
    discovery = listing(space)
    steps.discover(discovery)
    space.take(discovery.lease)
    assert space.run(run).status == "COMPLETED"
    return run


def item(url, **fields):
    return SourceItem(url, url, "text/plain", **fields)


def document(space, url):
    return space.db.row(
        "select d.id from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and d.external_id = %(url)s and d.deleted_at is null",
        {"namespace": space.scope.namespace, "url": url},
    )


def places_of(space, document_id):
    """Stores with data of the document."""
    tables = {"documents": "id", "chunks": "document_id", "run_documents": "document_id", "inbox": "document_id"}
    values = {"id": document_id, "prefix": f"{document_id}#"}
    places = {
        table
        for table, column in tables.items()
        if space.db.rows(f"select 1 as yes from {table} where {column} = %(id)s", values)
    }
    if list(registry.make_vector_store(space.config, space.db).ids(space.scope, values["prefix"])):
        places.add("vector store")
    if any(document_id in key for key in registry.make_file_store(space.config).keys(f"{space.scope.namespace}/")):
        places.add("files")
    return places


def counted(space):
    """Rows of the scope without a document: embeddings, words, counters."""
    rows = space.db.rows(
        """
        select p.chunks, p.terms, (select count(*) from embeddings e where e.partition_id = p.id) as embeddings,
               (select count(*) from postings o where o.partition_id = p.id) as postings,
               (select array_agg(distinct t.term order by t.term) from term_counts t
                where t.partition_id = p.id) as words
        from partitions p where p.namespace_id = %(namespace)s
        """,
        {"namespace": space.scope.namespace},
    )
    return dict(rows[0])


def test_what_is_gone_at_its_source_leaves_both_searches_at_once_and_every_store_in_time(space, memory):
    ingest_items(space, memory, item(BATS))
    alone = counted(space)
    ingest_items(space, memory, item(OWLS), item(BATS))
    owls, bats = space.documents()[OWLS]["id"], space.documents()[BATS]["id"]
    assert space.search("owls and mice")[0] == OWLS
    assert space.search("owls mice", **BY_WORDS) == [OWLS]
    assert {"documents", "chunks", "vector store", "files"} <= places_of(space, owls)
    deletion_run = ingest_items(space, memory, item(OWLS, deleted=True), item(BATS))
    assert space.search("owls and mice") == [BATS]
    assert space.search("owls mice", **BY_WORDS) == []
    assert space.search("bats moths", **BY_WORDS) == [BATS]
    assert OWLS not in space.documents()
    assert len(space.run(deletion_run).completed) == 1
    space.sweep()
    assert places_of(space, owls) <= {"run_documents"}  # the history of the runs
    assert {"documents", "chunks", "vector store", "files"} <= places_of(space, bats)
    assert counted(space) == alone
    assert space.search("owls and mice") == [BATS]
