"""Library fixtures: content in the tables, in a scope per test."""

import pytest

from tests.library import Library

DIMENSIONS = 8


@pytest.fixture(scope="session")
def new_library(db, new_scope):
    """Return a function that creates an empty scope and a Library with a vector store."""
    from connectors.vectors.pgvector import PgVectorStore

    def make(scope=None):
        scope = scope or new_scope()
        return Library(db, scope, PgVectorStore(db, scope.namespace, DIMENSIONS))

    return make


@pytest.fixture
def library(new_library):
    return new_library()
