"""An OTLP receiver (HTTP, protobuf) for OpenTelemetry's exporter, with spans in memory."""

from __future__ import annotations

import gzip
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.standins.faults import Handler, serving


@dataclass(frozen=True)
class Span:
    """A span with hexadecimal ids, `parent` empty for a root, `about` with the attributes of span and process."""

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
    standin: Receiver

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.read_body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        export = ExportTraceServiceRequest.FromString(body)
        with self.standin.lock:
            for resource in export.resource_spans:
                process = _values(resource.resource.attributes)
                for scope in resource.scope_spans:
                    self.standin.spans += [_span(span, process) for span in scope.spans]
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
    return {attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in attributes}
