"""Limit of external ids, which identify documents within their source."""

from __future__ import annotations

from retrieval.errors import ErrorCode, ServiceError

# In UTF-8. An entry of PostgreSQL's index of identities takes 2,704 bytes, with the partition and the source.
MAX_BYTES = 2_600


def is_too_long(external_id: str) -> bool:
    """Return whether the external id takes more than `MAX_BYTES`."""
    return len(external_id.encode(errors="surrogatepass")) > MAX_BYTES


def check_external_id(external_id: str, field: str) -> None:
    """Raise INVALID_INGEST_CONFIG if the external id takes more than `MAX_BYTES`."""
    if is_too_long(external_id):
        message = f"An external id may take {MAX_BYTES:,} bytes in UTF-8; shorten {field}."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=field, reason="too_long")
