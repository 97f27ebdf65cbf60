"""Hidden passages in requests and responses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, Listing, NamespaceId, ObjectReference, PaginationQuery, Timestamp
from retrieval.documents import hidden_passages as stored


class HidePassage(Struct, rename="camel"):
    """A chunk or a document to hide from search, and the reason."""

    namespace_id: NamespaceId
    reason: Annotated[str, Meta(min_length=1, max_length=500, description="Why it is hidden, for staff.")]
    chunk_index: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(description="Index of the chunk to hide; the whole document without one."),
    ] = None


class HiddenPassagesQuery(PaginationQuery, rename="camel", kw_only=True):
    """The namespace of the hidden passages. A page holds the passages of `pageSize` documents."""

    namespace_id: NamespaceId


class ShownPassageQuery(Struct, rename="camel"):
    """The namespace of the document."""

    namespace_id: NamespaceId


class HiddenPassage(Struct, rename="camel"):
    """A passage or document hidden from search."""

    id: Annotated[str, Meta(description="The id, with which it is shown again.")]
    document_id: Annotated[str, Meta(description="The document's id.")]
    document_name: Annotated[str, Meta(description="The document's name.")]
    reason: Annotated[str, Meta(description="Why it is hidden.")]
    content_hash: Annotated[
        str | None, Meta(description="SHA-256 of the chunk's text, in hexadecimal; null for the whole document.")
    ]
    excerpt: Annotated[str | None, Meta(description="Beginning of the text; null for the whole document.")]
    created_at: Annotated[Timestamp, Meta(description="When it was hidden.")]
    matched: Annotated[
        bool, Meta(description="Whether the searchable version has the passage; if not, nothing is hidden by it.")
    ]

    @classmethod
    def from_passage(cls, passage: stored.HiddenPassage) -> HiddenPassage:
        return cls(
            id=passage.id,
            document_id=passage.document_id,
            document_name=passage.document_name,
            reason=passage.reason,
            content_hash=passage.content_hash,
            excerpt=passage.excerpt,
            created_at=Timestamp.from_datetime(passage.created_at),
            matched=passage.is_matched,
        )


class HiddenPassageData(Struct, rename="camel"):
    """The hidden passage."""

    hidden_passage: Annotated[HiddenPassage, Meta(description="The hidden passage.")]


class HiddenPassageAnswer(DataAnswer[HiddenPassageData]):
    """The passage is hidden from search."""


class HiddenPassagesData(Listing, rename="camel", kw_only=True):
    """Hidden passages, those of the newest document first."""

    hidden_passages: Annotated[list[HiddenPassage], Meta(description="The hidden passages.")]


class HiddenPassagesAnswer(DataAnswer[HiddenPassagesData]):
    """The hidden passages of the namespace."""


class PassageShownAnswer(DataAnswer[ObjectReference]):
    """The passage is found by searches again."""
