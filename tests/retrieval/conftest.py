"""A library: content in the tables, in a scope of its own."""

import pytest

from tests.library import Library

DIMENSIONS = 8


@pytest.fixture
def new_library(db, new_scope):
    """A function that makes an empty scope, and a Library with a real vector store for it."""
    from connectors.vectors.pgvector import PgVectorStore

    def make(scope=None):
        scope = scope or new_scope()
        return Library(db, scope, PgVectorStore(db, scope.namespace, DIMENSIONS))

    return make


@pytest.fixture
def library(new_library):
    return new_library()
