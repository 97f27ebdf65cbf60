"""Pages of documents on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.ingest import NamespaceId


class PageQuery(Struct, rename="camel"):
    """Where the document is; `chunk` is the index of the chunk to shade on the page."""

    namespace_id: NamespaceId
    chunk: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None, Meta(description="Its place in the document.")
    ] = None
