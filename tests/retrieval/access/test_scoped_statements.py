"""Statements with their own viewer filter, without a policy, hide documents from the viewer."""

import ast
import asyncio
from pathlib import Path

import pytest

import retrieval
from retrieval.access import reading
from retrieval.access.queries import lists
from retrieval.conditions.model import Field
from retrieval.documents import documents, facets, stored_files
from retrieval.filters import DocumentFilter
from retrieval.principals import Access, Viewer
from retrieval.search import queries_filters as queries
from retrieval.search import queries_vectors
from tests.retrieval.search.test_search import axis

WHERE = DocumentFilter(metadata={"kind": "note"})
scope_statement = reading.scope_statement


@pytest.fixture
def pair(db, library):
    """Insert an open document and a document hidden from ada."""
    fields = {"source": "WEB", "document_type": "URL", "metadata": {"kind": "note"}}
    opened, hidden = (
        library.put(["wing"], [axis(0.9)], **fields, external_id=f"https://{name}.example.com/")
        for name in ("open", "hidden")
    )
    with db.transaction() as connection:
        lists.set_lists(connection, {hidden: Access(users=("bob",))})
    return opened, hidden


class Reader:
    """Read documents as ada by each statement."""

    def __init__(self, db, library, pair):
        self.db, self.scope, self.partition, self.pair = db, library.scope, library.partition, pair
        self.ada = Viewer("ada", ("u:ada",), library.partition)

    def run(self, work):
        async def closing():
            try:
                return await work
            finally:
                await self.db.async_close()

        return asyncio.run(closing())

    def chunks(self, ids):
        statement = "select document_id from chunks where id = any(%(ids)s)"
        return len(self.db.rows(statement, {"ids": list(ids)}))

    def all_chunks(self):
        statement = "select id from chunks where document_id = any(%(ids)s)"
        return [row["id"] for row in self.db.rows(statement, {"ids": list(self.pair)})]

    def count_listed(self):
        return len(self.run(documents.list_page(self.db, self.scope, WHERE, viewer=self.ada)).items)

    def counted(self):
        return self.run(documents.count_documents(self.db, self.scope, WHERE, viewer=self.ada)).by_status["SUCCESS"]

    def sites(self):
        return len(self.run(documents.count_sites(self.db, self.scope, WHERE, viewer=self.ada)))

    def facets(self):
        field = {"kind": Field("kind", is_metadata=True)}
        return self.run(facets.count_values(self.db, self.scope, WHERE, field, viewer=self.ada))["kind"][0].documents

    def files(self):
        files_by_document = [self.run(stored_files.find_files(self.db, document, self.ada)) for document in self.pair]
        return sum(files is not None for files in files_by_document)

    def matched(self):
        matches = queries.match_chunks(
            self.db, self.partition, WHERE, axis(0.9), viewer=self.ada, max_chunks=10, nearest=10
        )
        assert set(matches.nearest) == set(matches.chunks)
        return self.chunks(matches.chunks)

    def all_matching(self):
        chunk_ids = queries.list_matching_chunks(self.db, self.partition, WHERE, viewer=self.ada)
        return len(chunk_ids) // 8

    def filtered(self):
        chunks = self.all_chunks()
        return self.chunks(queries.filter_chunks(self.db, self.partition, chunks, WHERE, viewer=self.ada))

    def versions(self):
        return len(queries_vectors.list_versions(self.db, self.partition, WHERE, viewer=self.ada, limit=10))


STATEMENTS = {
    "count_listed": "access/reading.py",
    "counted": "access/reading.py",
    "sites": "access/reading.py",
    "facets": "access/reading.py",
    "files": "documents/stored_files.py",
    "matched": "search/queries_filters.py",
    "all_matching": "search/queries_filters.py",
    "filtered": "search/queries_filters.py",
    "versions": "search/queries_vectors.py",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_scope_of_the_statement_alone_hides_a_hidden_document(db, library, pair, monkeypatch, name):
    read = getattr(Reader(db, library, pair), name)
    assert read() == 1
    for module in (reading, stored_files, queries, queries_vectors):
        monkeypatch.setattr(
            module, "scope_statement", lambda statement, params, viewer: scope_statement(statement, params, None)
        )
    monkeypatch.setattr(stored_files, "_FIND_FILES_FOR_USER", stored_files._FIND_FILES)
    assert read() == 2, "the scope is what hides it"


def test_every_module_that_scopes_a_statement_is_tried_here():
    package = Path(retrieval.__file__).parent
    callers = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"scope_statement", "reading.scope_statement"}:
                callers.add(str(path.relative_to(package)))
    assert callers == set(STATEMENTS.values())
