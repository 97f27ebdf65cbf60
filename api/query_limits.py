"""Time limits of database reads, with their errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from psycopg.errors import QueryCanceled

from api.services import Services
from retrieval.conditions import rule
from retrieval.database import statement_budget
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.filters import DocumentFilter

_SET_TIMEOUT = "select set_config('statement_timeout', %(milliseconds)s, true)"


@contextmanager
def limit_search(
    services: Services, document_filter: DocumentFilter | None, *, field: str = "filter"
) -> Iterator[None]:
    """Limit the thread's statements to the search's seconds; raise SERVICE_UNAVAILABLE, `took_too_long`."""
    # `field` is the request's filter.
    seconds = services.settings.search_seconds
    try:
        with statement_budget.limit_time(seconds):
            yield
    except QueryCanceled as error:
        raise _timeout_error(document_filter, field, seconds) from error
    except StepError as error:  # of the vector store in the same database
        if isinstance(error.__cause__, QueryCanceled):
            raise _timeout_error(document_filter, field, seconds) from error
        raise


@asynccontextmanager
async def limit_listing(services: Services, document_filter: DocumentFilter, *, facets: int) -> AsyncIterator[None]:
    """Limit the statements of a listing with a condition or facets, in a transaction."""
    if document_filter.where is None and not facets:
        yield
        return
    seconds = services.settings.search_seconds
    try:
        async with services.db.async_together():
            await services.db.async_execute(_SET_TIMEOUT, {"milliseconds": str(max(1, round(seconds * 1000)))})
            yield
    except QueryCanceled as error:
        if document_filter.where is not None or not facets:
            raise _timeout_error(document_filter, "filterConfig", seconds) from error
        message = (
            f"Counting {_format_count(facets, 'facet')} took longer than {seconds:g} s. Ask for fewer, or among less."
        )
        raise _took_too_long(message, "facets") from error


def _timeout_error(document_filter: DocumentFilter | None, field: str, seconds: float) -> ServiceError:
    if document_filter is not None and document_filter.where is not None:
        many = _format_count(rule.count_fields(document_filter.where), "condition")
        message = (
            f"{field}: to decide on its {many} took longer than {seconds:g} s. Send fewer or shorter ones, or leave"
            " fewer documents by their ids, types, sources or metadata."
        )
        return _took_too_long(message, field)
    return _took_too_long(f"The database did not answer this within {seconds:g} s. Try again in a moment.", None)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _took_too_long(message: str, field: str | None) -> ServiceError:
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=field, reason="took_too_long")
