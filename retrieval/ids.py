"""Identifiers: type prefix, 48 bits of time and 128 random bits, sorted by age."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Iterable

Prefix = str
_ALPHABET = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789abcdefghjkmnpqrstvwxyz")
_DOCUMENT_ID = re.compile(r"[A-Za-z0-9_-]+")


def new_id(prefix: Prefix) -> str:
    """Return a new id such as `doc_06bq…`: prefix and 36 characters of lowercase Crockford base 32."""
    moment = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    return prefix + base64.b32encode(moment + os.urandom(16)).translate(_ALPHABET).rstrip(b"=").decode()


def organization_id() -> str:
    return new_id("org_")


def namespace_id() -> str:
    return new_id("ns_")


def document_id() -> str:
    return new_id("doc_")


def job_id() -> str:
    return new_id("job_")


def job_run_id() -> str:
    return new_id("ijr_")


def batch_id() -> str:
    return new_id("bat_")


def connection_id() -> str:
    return new_id("conn_")


def schedule_id() -> str:
    return new_id("sch_")


def directory_id() -> str:
    return new_id("dir_")


def deletion_id() -> str:
    return new_id("del_")


def evaluation_id() -> str:
    return new_id("eval_")


def evaluation_run_id() -> str:
    return new_id("evr_")


def key_id() -> str:
    return new_id("key_")


def audit_id() -> str:
    return new_id("aud_")


def webhook_id() -> str:
    return new_id("wh_")


def webhook_event_id() -> str:
    return new_id("evt_")


def webhook_delivery_id() -> str:
    return new_id("whd_")


def vector_prefix(document_id: str, generation: int) -> str:
    """Return the prefix of all vector ids of a generation."""
    return f"{vector_prefix_of_document(document_id)}{generation}#"


def vector_prefix_of_document(document_id: str) -> str:
    """Return the prefix of all vector ids of a document."""
    return f"{document_id}#"


def vector_id(document_id: str, generation: int, index: int) -> str:
    """Return the vector id of a chunk: `document#generation#index`."""
    return f"{vector_prefix(document_id, generation)}{index}"


def vector_prefix_of(vector_id: str) -> str:
    """Return the `vector_prefix` of a vector id."""
    return vector_id[: vector_id.rfind("#") + 1]


def parse_vector_id(vector_id: str) -> tuple[str, int, int] | None:
    """Parse a vector id into document, generation and index; None for foreign ids."""
    parts = vector_id.rsplit("#", 2)
    if len(parts) != 3 or not all(part.isdecimal() and part.isascii() for part in parts[1:]):
        return None
    if len(parts[1]) > 18 or len(parts[2]) > 9:
        return None
    return parts[0], int(parts[1]), int(parts[2])


def parse_vector_ids(vector_ids: Iterable[str]) -> list[tuple[str, int, int]]:
    """Parse vector ids and skip malformed ids."""
    parsed = map(parse_vector_id, vector_ids)
    return [place for place in parsed if place is not None and _DOCUMENT_ID.fullmatch(place[0])]
