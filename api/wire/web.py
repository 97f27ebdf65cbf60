"""Ingestion of web pages on the wire: a list of URLs, a sitemap, a website."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from api.wire.ingest import Chunking, DryRun, For, Metadata, NamespaceId

Address = Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://docs.example.com/start"])]
Selector = Annotated[str, Meta(min_length=1)]
Fragment = Annotated[str, Meta(min_length=1, max_length=2048)]
Paths = Annotated[list[Fragment], Meta(description="Tested as parts of the URL; up to 100.", examples=[["/guide/"]])]
MaxLinks = Annotated[int, Meta(ge=1, description="The most documents to make; up to 10,000.")]


class ScrapeOptions(Struct, rename="camel"):
    """CSS selectors of what to keep and what to leave out of each page; up to 50 of 200 characters each."""

    include_selectors: Annotated[
        Annotated[list[Selector], Meta(examples=[["main"]])] | None,
        Meta(description="CSS selectors of the elements to take."),
    ] = None
    exclude_selectors: Annotated[
        Annotated[list[Selector], Meta(examples=[["nav", ".ads"]])] | None,
        Meta(description="CSS selectors of the elements to leave out."),
    ] = None


class PageConfig(Struct, rename="camel", kw_only=True):
    """What the three kinds share."""

    scrape_options: Annotated[
        ScrapeOptions | None, Meta(description="Which elements of a page to take and to leave.")
    ] = None
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    access: For = None

    def request(self, **addresses: Any) -> dict[str, Any]:
        """What the flow needs to know, in the contract's words; the ingestion has its own place for the rest."""
        kept = msgspec.to_builtins(self) | addresses
        return {
            key: value
            for key, value in kept.items()
            if key not in {"metadata", "chunkConfig", "access"} and value is not None
        }


class UrlsConfig(PageConfig, kw_only=True):
    """Pages by their URLs, up to 1000. The same URL again replaces its document."""

    urls: Annotated[list[Address], Meta(min_length=1, description="The pages' URLs, up to 1000.")]


class SitemapConfig(PageConfig, kw_only=True):
    """The pages that a sitemap names. `excludePaths` wins over `includePaths`."""

    url: Annotated[Address, Meta(description="Where to begin: the sitemap, or the start page.")]
    max_links: MaxLinks | None = 1000
    include_paths: Paths | None = None
    exclude_paths: Paths | None = None


class WebsiteConfig(PageConfig, kw_only=True):
    """The pages of a site, found by following its links. `maxDepth` counts links from the start page."""

    url: Annotated[Address, Meta(description="Where to begin: the sitemap, or the start page.")]
    max_depth: Annotated[
        Annotated[int, Meta(ge=1, le=5)] | None, Meta(description="How many links away from the start page to go.")
    ] = 3
    max_links: MaxLinks | None = 100
    include_paths: Paths | None = None
    exclude_paths: Paths | None = None


class UrlsIngestion(Struct, rename="camel"):
    """Pages with how to cut them. A `chunkConfig` within `config` is honoured where there is none beside it."""

    source: Annotated[Literal["URLS_LIST"], Meta(description="Where the content comes from; it must fit the path.")]
    config: Annotated[UrlsConfig, Meta(description="What to take from the source.")]
    chunk_config: Chunking = None


class SitemapIngestion(Struct, rename="camel"):
    """A sitemap with how to cut its pages."""

    source: Annotated[Literal["SITEMAP"], Meta(description="Where the content comes from; it must fit the path.")]
    config: Annotated[SitemapConfig, Meta(description="What to take from the source.")]
    chunk_config: Chunking = None


class WebsiteIngestion(Struct, rename="camel"):
    """A website with how to cut its pages."""

    source: Annotated[Literal["WEBSITE"], Meta(description="Where the content comes from; it must fit the path.")]
    config: Annotated[WebsiteConfig, Meta(description="What to take from the source.")]
    chunk_config: Chunking = None


class IngestUrls(Struct, rename="camel"):
    """URLs to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[UrlsIngestion, Meta(description="What to ingest, and how.")]
    dry_run: DryRun | None = False


class IngestSitemap(Struct, rename="camel"):
    """A sitemap to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[SitemapIngestion, Meta(description="What to ingest, and how.")]
    dry_run: DryRun | None = False


class IngestWebsite(Struct, rename="camel"):
    """A website to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[WebsiteIngestion, Meta(description="What to ingest, and how.")]
    dry_run: DryRun | None = False
