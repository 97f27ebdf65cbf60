"""Stores of a namespace for garbage collection and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.ports import FileStore, VectorStore


@dataclass(frozen=True, slots=True)
class Stores:
    """Vector and file stores of a namespace. `end_authorizations`: revokes the connections of a partition."""

    vectors: VectorStore
    files: FileStore
    end_authorizations: Callable[[int], None]
    # Vector stores of a re-embedding, or former ones.
    others: tuple[VectorStore, ...] = ()
