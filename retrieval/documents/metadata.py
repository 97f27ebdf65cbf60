"""Metadata that clients attach to documents: free-form JSON within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from retrieval.conditions.model import WHOLE_WORDS, is_beyond
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings


def check(metadata: Mapping[str, Any], settings: Settings, code: ErrorCode, field: str) -> None:
    """ServiceError `code` if there are too many keys, one of them or all together are too large, or a number is."""
    if len(metadata) > settings.metadata_keys:
        raise _refused(code, f"{field} may have up to {settings.metadata_keys} keys.", field, "too_many_keys")
    total = 0
    for key, value in metadata.items():
        if is_beyond(value):
            raise _refused(code, f"{field}.{key}: {WHOLE_WORDS}", f"{field}.{key}", "out_of_bounds")
        size = len(msgspec.json.encode(value))
        total += len(key.encode()) + size
        if len(key) > settings.metadata_key_characters:
            raise _refused(
                code, f"A key of {field} may have {settings.metadata_key_characters} characters.", field, "key_too_long"
            )
        if size > settings.metadata_value_bytes:
            raise _refused(
                code,
                f"A value of {field} may take {settings.metadata_value_bytes} bytes as JSON.",
                field,
                "value_too_large",
            )
    if total > settings.metadata_bytes:
        raise _refused(code, f"{field} may take {settings.metadata_bytes} bytes in all.", field, "too_large")


def _refused(code: ErrorCode, message: str, field: str, reason: str) -> ServiceError:
    return ServiceError(code, message, field=field, reason=reason)
