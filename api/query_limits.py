"""Time limits of single reads in the database, and the errors for reads that exceed them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from psycopg.errors import QueryCanceled

from api.services import Services
from retrieval.conditions import rule
from retrieval.database import statement_budget
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.filters import DocumentFilter

_LIMIT = "select set_config('statement_timeout', %(milliseconds)s, true)"


@contextmanager
def limit_search(services: Services, where: DocumentFilter | None, *, field: str = "filter") -> Iterator[None]:
    """Limit the statements of this thread for one search. Raises SERVICE_UNAVAILABLE, `took_too_long`, after the
    configured seconds.

    field: where the request has the filter.
    """
    seconds = services.settings.search_seconds
    try:
        with statement_budget.limit_time(seconds):
            yield
    except QueryCanceled as error:
        raise _too_dear(where, field, seconds) from error
    except StepError as error:  # of the vector store in the same database
        if isinstance(error.__cause__, QueryCanceled):
            raise _too_dear(where, field, seconds) from error
        raise


@asynccontextmanager
async def limit_listing(services: Services, where: DocumentFilter, *, facets: int) -> AsyncIterator[None]:
    """Limit the statements of a document listing in one transaction, if it has a condition or facets."""
    if where.where is None and not facets:
        yield
        return
    seconds = services.settings.search_seconds
    try:
        async with services.db.async_together():
            await services.db.async_execute(_LIMIT, {"milliseconds": str(max(1, round(seconds * 1000)))})
            yield
    except QueryCanceled as error:
        if where.where is not None or not facets:
            raise _too_dear(where, "filterConfig", seconds) from error
        message = f"Counting {_many(facets, 'facet')} took longer than {seconds:g} s. Ask for fewer, or among less."
        raise _unavailable(message, "facets") from error


def _too_dear(where: DocumentFilter | None, field: str, seconds: float) -> ServiceError:
    if where is not None and where.where is not None:
        many = _many(rule.count_fields(where.where), "condition")
        message = (
            f"{field}: to decide on its {many} took longer than {seconds:g} s. Send fewer or shorter ones, or leave"
            " fewer documents by their ids, types, sources or metadata."
        )
        return _unavailable(message, field)
    return _unavailable(f"The database did not answer this within {seconds:g} s. Try again in a moment.", None)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _unavailable(message: str, field: str | None) -> ServiceError:
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=field, reason="took_too_long")
