"""One request and its answer: what the door knows about it and handlers may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from litestar.types import Scope as AsgiScope

from api.auth import Caller, Rate

_KEY = "retrieval.request_context"


@dataclass(slots=True)
class RequestContext:
    """`caller` and `rate` are there once the request has been authenticated; `code` once an error was answered."""

    request_id: str
    caller: Caller | None = None
    rate: Rate | None = None
    code: str | None = None
    status: int = 0


def attach(scope: AsgiScope, context: RequestContext) -> None:
    cast("dict[str, object]", scope)[_KEY] = context


def of(scope: AsgiScope) -> RequestContext:
    return cast("RequestContext", cast("dict[str, object]", scope)[_KEY])
