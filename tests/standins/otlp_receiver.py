"""What OpenTelemetry's exporter speaks with: OTLP by HTTP and protobuf, spans kept in memory."""

from __future__ import annotations

import gzip
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.standins.faults import Handler, serving


@dataclass(frozen=True)
class Span:
    """Ids in hexadecimal, `parent` empty for a root; `about`: its attributes and those of its process."""

    name: str
    trace: str
    id: str
    parent: str
    failed: bool
    about: dict[str, Any]


@dataclass
class Receiver:
    port: int = 0
    spans: list[Span] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace: str) -> dict[str, Span]:
        """The spans of a trace, by name."""
        with self.lock:
            return {span.name: span for span in self.spans if span.trace == trace}


def running() -> AbstractContextManager[Receiver]:
    return serving(Receiver(), _Handler)


class _Handler(Handler):
    place: Receiver

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.read_body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        asked = ExportTraceServiceRequest.FromString(body)
        with self.place.lock:
            for resource in asked.resource_spans:
                process = _values(resource.resource.attributes)
                for scope in resource.scope_spans:
                    self.place.spans += [_span(span, process) for span in scope.spans]
        self.reply(200, b"", {"Content-Type": "application/x-protobuf"})


def _span(span: Any, process: dict[str, Any]) -> Span:
    return Span(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.status.code == 2,
        process | _values(span.attributes),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
