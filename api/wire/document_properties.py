"""What is known of a document's content, on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from api.wire.common import Timestamp
from retrieval.documents.documents import DocumentRow
from retrieval.ingestion.items import ARCHIVE_PATH
from retrieval.sources import WEB


class PageToCheck(Struct, rename="camel"):
    """A page whose text may be wrong or missing."""

    page: Annotated[int | None, Meta(description="The page, from 1; null for a text without pages.")]
    quality: Annotated[
        float, Meta(ge=0, le=1, description="How far its text can be trusted, from 0 to 1; below .4 it is left out.")
    ]
    unread: Annotated[bool, Meta(description="Whether its text is left out of the document.")]
    reasons: Annotated[list[str], Meta(description="What is wrong with it, and what to do.")]


class DocumentProperties(Struct, rename="camel"):
    """What was found out about a document's content; null while it is not known."""

    mime_type: Annotated[str | None, Meta(description="The media type.")] = None
    file_size: Annotated[int | None, Meta(description="The size in bytes.")] = None
    character_count: Annotated[int | None, Meta(description="The length of the parsed text.")] = None
    token_count: Annotated[int | None, Meta(description="The tokens of all chunks.")] = None
    embedding_count: Annotated[int | None, Meta(description="How many chunks have a vector.")] = None
    title: Annotated[
        str | None, Meta(description="The title that the content names, or its first heading; null if it has none.")
    ] = None
    author: Annotated[str | None, Meta(description="Who made it, as the content says; null if it does not.")] = None
    language: Annotated[
        str | None,
        Meta(
            description="The language of the text, as the content says or as it was recognised; null if it is "
            "not known."
        ),
    ] = None
    page_count: Annotated[
        int | None, Meta(description="How many pages, slides or pictures it has; null where there are none.")
    ] = None
    text_quality: (
        Annotated[
            float,
            Meta(ge=0, le=1, description="How far the text can be trusted: as far as its lowest page; null if not."),
        ]
        | None
    ) = None
    pages_to_check: Annotated[
        list[PageToCheck], Meta(description="Pages with a quality below .8, the lowest 50 at most, in their order.")
    ] = []
    created_at: Annotated[
        Timestamp | None, Meta(description="When the content was made, as it says itself; null if it does not.")
    ] = None
    modified_at: Annotated[
        Timestamp | None,
        Meta(description="When the content last changed, as it or its source says; null if they do not."),
    ] = None
    url: Annotated[str | None, Meta(description="Where the content is found on the web; null if nowhere.")] = None
    path: Annotated[
        str | None,
        Meta(
            description="Where it lies in the folders of its source, or in the archive or mail that held it; "
            "null if nowhere."
        ),
    ] = None
    owner: Annotated[
        str | None, Meta(description="To whom it belongs at its content service; null if it is not known.")
    ] = None
    notice: Annotated[
        str | None, Meta(description="What else the file holds that was not read, such as pictures; null if nothing.")
    ] = None

    @classmethod
    def of(cls, row: DocumentRow) -> DocumentProperties:
        """What the pipeline recorded under these names. A page's URL is where it was found if it names no other."""
        known = dict(row.properties)
        known.setdefault("url", known.get("canonicalUrl") or (row.external_id if row.source in WEB else None))
        known.setdefault("path", known.get(ARCHIVE_PATH))
        dates = {key: _moment(known.get(key)) for key in ("createdAt", "modifiedAt")}
        return msgspec.convert({**known, **dates}, cls)


def _moment(stamp: object) -> Timestamp | None:
    """Of a date that a file or a content service gave; null if it is none."""
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
        return Timestamp.of(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else None
    except (ValueError, OverflowError):
        return None
