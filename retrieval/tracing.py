"""Tracing with OpenTelemetry, imported only if `OTEL_*` names a receiver.

A trace starts with an API request or the client's `traceparent`, and continues in the job run by `retrieval.origin`.
Spans contain ids, step names and counts, never contents.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from retrieval.origin import Origin
from retrieval.setting_values import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

log = structlog.get_logger()

HTTP_PROTOCOL: Final = "http/protobuf"
# Timeout of the last spans at shutdown.
END_SECONDS: Final = 3


@dataclass(slots=True)
class _Process:
    """Tracer of this process; `is_configured`: the variables have been read."""

    is_configured: bool = False
    provider: TracerProvider | None = None
    tracer: Tracer | None = None


_process = _Process()
Attributes = Mapping[str, str | int | bool]


def is_enabled() -> bool:
    """Return True if the variables name a supported receiver."""
    options = OpenTelemetry()
    has_receiver = options.exporter_otlp_traces_endpoint or options.exporter_otlp_endpoint
    if options.sdk_disabled or not has_receiver or options.traces_exporter != "otlp":
        return False
    protocol = options.exporter_otlp_traces_protocol or options.exporter_otlp_protocol or HTTP_PROTOCOL
    if protocol != HTTP_PROTOCOL:
        log.warning("tracing.off", reason=f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}: only {HTTP_PROTOCOL} is spoken")
    return protocol == HTTP_PROTOCOL


def make_tracer(role: str) -> Tracer | None:
    """Return the tracer of this process, None without tracing. `role`: attribute of each span."""
    if not _process.is_configured:
        _process.is_configured = True
        if is_enabled():
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            about: dict[str, Any] = {"retrieval.role": role, "process.pid": os.getpid()}
            if not OpenTelemetry().service_name:
                about[SERVICE_NAME] = "retrieval"
            provider = TracerProvider(resource=Resource.create(about))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            if role == "api":  # for spans of the MCP SDK; of the other roles Prefect would add its own
                from opentelemetry import trace

                trace.set_tracer_provider(provider)
            _process.provider, _process.tracer = provider, provider.get_tracer("retrieval")
    return _process.tracer


def end_tracing() -> None:
    """Send remaining spans within END_SECONDS and reset the tracer."""
    if _process.provider is not None:
        _process.provider.force_flush(END_SECONDS * 1000)
        _process.provider.shutdown()
    _process.is_configured, _process.provider, _process.tracer = False, None, None


def format_traceparent(span: Span) -> str:
    """Format as W3C Trace Context."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def begin_request(tracer: Tracer, method: str, traceparent: str | None) -> Span:
    """Start the span of a request, within the client's trace."""
    from opentelemetry.trace import SpanKind

    return tracer.start_span(method, context=_remote_context(traceparent), kind=SpanKind.SERVER)


def close_request(span: Span, method: str, route: str, status: int, request_id: str, organization: str) -> None:
    """End the span of a request, named by its route."""
    from opentelemetry import trace

    span.update_name(f"{method} {route}")
    span.set_attributes(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "retrieval.request_id": request_id,
            "retrieval.organization": organization,
        }
    )
    if status >= 500:
        span.set_status(trace.Status(trace.StatusCode.ERROR))
    span.end()


@contextmanager
def within_span(span: Span | None) -> Iterator[None]:
    """Make spans of the block children of this span; the caller ends it."""
    if span is None:
        yield
        return
    from opentelemetry import trace

    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


def _remote_context(traceparent: str | None) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent} if traceparent else {})


def describe_embedding(provider: str, model: str) -> Attributes:
    """Return the attributes of an embedding request (OpenTelemetry GenAI conventions)."""
    name = {"ENDPOINT": "openai"}.get(provider, provider.lower())  # of the protocol, where the vendor is not known
    return {"gen_ai.operation.name": "embeddings", "gen_ai.provider.name": name, "gen_ai.request.model": model}


def describe_search(namespaces: Iterable[str], model: str, top_k: int) -> Attributes:
    """Return the attributes of a search (OpenTelemetry GenAI conventions)."""
    return {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "retrieval",
        "gen_ai.data_source.id": ",".join(namespaces),
        "gen_ai.request.model": model,
        "gen_ai.retrieval.top_k": top_k,
    }


class JobRunSpans:
    """Spans of the job runs of a flow run, each in the trace of its request."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[str, Span] = {}

    def begin(self, job_run: str, origin: Origin, created_at: datetime, name: str, attributes: Attributes) -> None:
        """Start the span of a job run out of the queue, if its request was traced and sampled."""
        from opentelemetry import trace

        if not origin.traceparent or not _is_sampled(origin.traceparent):
            return
        remote = _remote_context(origin.traceparent)
        span = self._tracer.start_span(name, context=remote, kind=trace.SpanKind.CONSUMER, attributes=attributes)
        span.set_attribute("retrieval.job_run", job_run)
        queued = self._tracer.start_span(
            "queue", context=trace.set_span_in_context(span), start_time=int(created_at.timestamp() * 1e9)
        )
        queued.end()
        self._spans[job_run] = span

    @contextmanager
    def step(self, name: str, job_runs: Iterable[str], attributes: Attributes) -> Iterator[None]:
        """Trace a step for each job run in its own trace; nested spans belong to the first."""
        from opentelemetry import trace

        parents = [self._spans[job_run] for job_run in sorted(set(job_runs)) if job_run in self._spans]
        spans = [
            self._tracer.start_span(name, context=trace.set_span_in_context(parent), attributes=attributes)
            for parent in parents
        ]
        try:
            if spans:
                with trace.use_span(spans[0], end_on_exit=False, record_exception=False, set_status_on_exception=False):
                    yield
            else:
                yield
        except BaseException as error:
            for span in spans:
                span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            for span in spans:
                span.end()

    def end(self) -> None:
        for span in self._spans.values():
            span.end()
        self._spans.clear()


def _is_sampled(traceparent: str) -> bool:
    return traceparent.endswith(("1", "3", "5", "7", "9", "b", "d", "f"))


# Job runs of the flow run in this context.
CURRENT_RUNS: ContextVar[JobRunSpans | None] = ContextVar("runs", default=None)


@contextmanager
def trace_step(name: str, job_runs: Iterable[str], **attributes: str | int) -> Iterator[None]:
    """Trace a step of this context's flow run for these job runs."""
    runs = CURRENT_RUNS.get()
    if runs is None:
        yield
    else:
        with runs.step(name, job_runs, {f"retrieval.{key}": value for key, value in attributes.items()}):
            yield


@contextmanager
def trace_call(name: str, attributes: Attributes | None = None) -> Iterator[None]:
    """Trace a call within the current trace, if any."""
    if _process.tracer is None:
        yield
        return
    from opentelemetry import trace

    if not trace.get_current_span().get_span_context().is_valid:
        yield
        return
    with _process.tracer.start_as_current_span(
        name, kind=trace.SpanKind.CLIENT, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
