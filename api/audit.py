"""Audit entries of API writes, committed before the response is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

import msgspec
from litestar.types import HTTPScope

from api import request_context
from api.request import Operation
from api.request_context import RequestContext
from retrieval.accounts import audit
from retrieval.accounts.audit import AuditEntry, Source
from retrieval.write_details import Details

# Object types by path segment that are not its singular.
_OBJECT_TYPES: Mapping[str, str] = {"ingest": "ingestJobRun", "organization": "organization", "deliveries": "delivery"}


class AuditLog:
    """Audit entries of an API process."""

    def __init__(self, writer: audit.AuditWriter) -> None:
        self._writer = writer

    async def record_write(self, scope: HTTPScope, context: RequestContext, body: bytes) -> None:
        """Write the entry of a write that is answered with `body`; return after the commit."""
        about = audited_operation(scope, context)
        if about is None or context.caller is None or context.details.is_omitted:
            return
        caller, (segment, parameter) = context.caller, _split_path(about.path)
        if context.status != HTTPStatus.OK:
            context.details = Details()  # a refused write changed nothing
        person = caller.signed_in and caller.signed_in.person
        await self._writer.write(
            AuditEntry(
                organization_id=caller.organization,
                key_id=None if person or context.source is not Source.API else caller.key_id,
                key_name=None if person else caller.key_name,
                principal=context.principal or (person.principal if person else None),
                subject=person.subject if person else None,
                method=about.method,
                route=about.path.replace(":str}", "}"),
                object_type=object_type(segment),
                object_id=_find_object_id(segment, parameter, scope, context, body),
                status=context.status,
                request_id=context.own_id,
                client_request_id=None if context.request_id == context.own_id else context.request_id,
                object_ids=context.details.object_ids or None,
                object_count=context.details.count or None,
                changes=context.details.changes or None,
                source=context.source,
            )
        )


def audited_operation(scope: HTTPScope, context: RequestContext) -> Operation | None:
    """Return the operation of an authenticated request that changes data, else None."""
    if context.caller is None or scope["method"] == "GET":
        return None
    handler = scope.get("route_handler")
    about = cast("Operation | None", handler.opt.get("operation")) if handler is not None else None
    return about if about is not None and about.is_write else None


def object_type(segment: str) -> str:
    """Return the object type of a path segment: `ingestJobRun` for `ingest-job-runs`."""
    if segment in _OBJECT_TYPES:
        return _OBJECT_TYPES[segment]
    first, *words = segment.removesuffix("s").split("-")
    return first + "".join(word.capitalize() for word in words)


def _split_path(path: str) -> tuple[str, str | None]:
    """Return the path segment of the operation's objects, and the parameter of the object, if any."""
    matches = re.findall(r"([^/]+)/{(\w+)(?::\w+)?}", path)
    return matches[-1] if matches else (path.split("/")[2], None)


def _find_object_id(
    segment: str, parameter: str | None, scope: HTTPScope, context: RequestContext, body: bytes
) -> str | None:
    """Return the id in the path, else of the created object; for a filter, of the only changed document."""
    if parameter is not None:
        return request_context.read_path_parameters(scope)[parameter]
    if segment == "organization" and context.caller is not None:
        return context.caller.organization
    if segment == "documents" and context.details.count:
        return context.details.object_ids[0] if context.details.count == 1 else None
    return _find_created_id(body) if context.status == 200 else None


def _find_created_id(body: bytes) -> str | None:
    """Return the id of the first object in `data`, of `data` itself, or of its job run."""
    # Responses in the format of another service are the object itself.
    answer: dict[str, Any] = msgspec.json.decode(body)
    data = answer.get("data", answer)
    if not isinstance(data, dict):
        return None
    objects = [value for value in data.values() if isinstance(value, dict)]
    for candidate in (*objects, data):
        if isinstance(candidate.get("id"), str):
            return cast("str", candidate["id"])
    return next((value for name, value in data.items() if re.search("Id$", name) and isinstance(value, str)), None)
