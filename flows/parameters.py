"""Parameters of the ingestion deployments: fields of Prefect's form, and the API request made from them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

# Prefect shows and keeps parameters in the clear: they hold no secrets. Namespaces and connections do.

StateT = TypeVar("StateT")
# Shown before the fields of the source.
FIRST_FIELDS = ("batch_id", "attempt", "namespace")


class Dispatched(BaseModel):
    """Parameters set by the dispatcher for accepted content; hidden in Prefect's form."""

    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=to_camel))

    batch_id: SkipJsonSchema[str | None] = Field(None, exclude=True)
    attempt: SkipJsonSchema[int] = Field(1, exclude=True)


class Ingestion(Dispatched):
    """Parameters of every ingestion."""

    # Types only: the API checks the values.

    namespace: str = Field(
        "",
        exclude=True,
        description="Namespace to ingest into: its id, or its name if no other namespace has it.",
        examples=["ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"],
    )
    tenant: str = Field("", exclude=True, description="Tenant that the documents belong to.")

    def make_body(self, namespace_id: str, source: str) -> dict[str, Any]:
        """Build the API's request body without empty parameters."""
        config = {name: value for name, value in self.model_dump(by_alias=True).items() if value not in (None, "", [])}
        chunks = {name: config.pop(name) for name in ("chunkSize", "chunkOverlap") if name in config}
        scrape = {name: config.pop(name) for name in ("includeSelectors", "excludeSelectors") if name in config}
        if scrape:
            config["scrapeOptions"] = scrape
        request: dict[str, Any] = {"source": source, "config": config}
        if chunks:
            request["chunkConfig"] = chunks
        return {"namespaceId": namespace_id, "ingestConfig": request}


class Documents(Ingestion):
    """Options of documents from any source."""

    metadata: dict[str, Any] | None = Field(
        None, description="Metadata of the documents: up to 50 keys, which searches can filter by."
    )
    access: dict[str, Any] | None = Field(
        None, description="Access list of the documents: users, groups, denied and public, as in the API."
    )
    chunk_size: int | None = Field(
        None, description="Maximum number of tokens of a chunk. Default: 1000; needs chunk_overlap."
    )
    chunk_overlap: int | None = Field(
        None, description="Number of tokens shared with the previous chunk. Default: 200; needs chunk_size."
    )


class Text(Documents):
    """A text."""

    text: str = Field("", description="Text to ingest. Prefect stores and shows it.")
    name: str = Field("", description="Name of the document; its external id if none is given.")
    external_id: str = Field("", description="External id. The same id again replaces the document.")
    modified_at: str = Field("", description="Time of the text's last modification, ISO 8601.")


class Pages(Documents):
    """Options of web pages."""

    include_selectors: list[str] = Field([], description="CSS selectors of the elements to include.")
    exclude_selectors: list[str] = Field([], description="CSS selectors of the elements to exclude.")


class Urls(Pages):
    """A list of URLs."""

    urls: list[str] = Field([], description="URLs of the pages, up to 1000.")


class Site(Pages):
    """Limits of a listing of pages."""

    include_paths: list[str] = Field([], description="Substrings of URLs to include, such as /guide/.")
    exclude_paths: list[str] = Field([], description="Substrings of URLs to exclude, such as /login.")


class Sitemap(Site):
    """A sitemap."""

    url: str = Field("", description="URL of the sitemap.")
    max_links: int = Field(1000, description="Maximum number of pages, up to 10,000.")


class Website(Site):
    """A website."""

    url: str = Field("", description="URL of the start page.")
    max_depth: int = Field(3, description="Maximum number of links between the start page and a page, up to 5.")
    max_links: int = Field(100, description="Maximum number of pages, up to 10,000.")
    use_sitemap: bool = Field(default=True, description="Also ingest pages of the sitemaps that robots.txt names.")


class Connection(Documents):
    """A connection; the service keeps the credentials."""

    connection: str = Field(
        "",
        serialization_alias="connectionId",
        description="Id of an ACTIVE connection of the namespace and tenant.",
        examples=["conn_06gzppa1c3e5g7j9m2p4r6t8w1"],
    )
    include: list[dict[str, Any]] = Field(
        [], description='What to read, such as {"id": "…"} or {"path": "/Manuals"}. Default: everything.'
    )
    exclude: list[dict[str, Any]] = Field(
        [], description="What to leave out, in the form of include; it wins over include."
    )
    pick: bool = Field(
        default=False, description="List without ingesting: new documents wait until a resync chooses them."
    )
    full_listing: bool = Field(
        default=False,
        serialization_alias="fullListing",
        description="List everything in this run, to find deletions that lists of changes do not name.",
    )


def flat_parameters(flow: Callable[[Any], Awaitable[StateT]]) -> Callable[..., Awaitable[StateT]]:
    """Make the fields of a flow's model parameters, for Prefect's form and `-p`."""
    (model,) = (annotation for name, annotation in get_type_hints(flow).items() if name != "return")
    fields = model.model_fields

    @wraps(flow)
    async def run_flow(*args: Any, **kwargs: Any) -> StateT:
        return await flow(model(**signature.bind(*args, **kwargs).arguments))

    names = [
        *(name for name in FIRST_FIELDS if name in fields),
        *(name for name in _iter_field_names(model) if name not in FIRST_FIELDS),
    ]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=fields[name].default,
            annotation=_annotate(fields[name]),
        )
        for name in names
    ]
    signature = inspect.Signature(parameters, return_annotation=Any)
    run_flow.__signature__ = signature  # type: ignore[attr-defined]
    return run_flow


def _iter_field_names(model: type[BaseModel]) -> Iterator[str]:
    """Yield field names of the model, then of its base classes."""
    for kind in model.__mro__:
        yield from (name for name in inspect.get_annotations(kind) if name in model.model_fields)


def _annotate(field: FieldInfo) -> Any:
    # Prefect overrides the description of an annotation, but keeps further keys of its schema.
    schema: dict[str, Any] = {"description": field.description, "examples": field.examples}
    extra = Field(json_schema_extra={key: value for key, value in schema.items() if value is not None})
    # Schedules and flow runs of version 0.2.0 have None for an empty field.
    fill_default = BeforeValidator(lambda value: field.default if value is None else value)
    return Annotated[field.annotation, *field.metadata, fill_default, extra]
