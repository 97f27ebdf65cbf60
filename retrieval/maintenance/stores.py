"""Stores of a namespace that garbage collection and checks work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.ports import FileStore, VectorStore


@dataclass(frozen=True, slots=True)
class Stores:
    """Vector and file stores of a namespace. `end_authorizations`: revokes those of a partition, by its number."""

    vectors: VectorStore
    files: FileStore
    end_authorizations: Callable[[int], None]
    others: tuple[VectorStore, ...] = ()
    """Vector stores that a re-embedding builds, or that the namespace has left."""
