"""Ingestion flows, one for each source."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from flows.parameters import Sitemap, Text, Urls, Website, flat_parameters
from flows.pipeline import run_ingestion
from flows.requests import run_source


@flow(name="ingest-text", persist_result=False)
@flat_parameters
async def ingest_text(parameters: Text) -> State[None]:
    """Ingest texts sent in the request."""
    return await run_source(parameters)


@flow(name="ingest-file", persist_result=False)
async def ingest_file(batch_id: str, attempt: int) -> State[None]:
    """Ingest uploaded files."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-urls", persist_result=False)
@flat_parameters
async def ingest_urls(parameters: Urls) -> State[None]:
    """Ingest the pages of a list of URLs."""
    return await run_source(parameters)


@flow(name="ingest-sitemap", persist_result=False)
@flat_parameters
async def ingest_sitemap(parameters: Sitemap) -> State[None]:
    """Ingest the pages of a sitemap."""
    return await run_source(parameters)


@flow(name="ingest-website", persist_result=False)
@flat_parameters
async def ingest_website(parameters: Website) -> State[None]:
    """Ingest the pages of a website by following its links."""
    return await run_source(parameters)


@flow(name="ingest-notion", persist_result=False)
async def ingest_notion(batch_id: str, attempt: int) -> State[None]:
    """Ingest pages of a Notion workspace."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-google-drive", persist_result=False)
async def ingest_google_drive(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of a Google Drive."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-dropbox", persist_result=False)
async def ingest_dropbox(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of a Dropbox."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-onedrive", persist_result=False)
async def ingest_onedrive(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of a OneDrive."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-sharepoint", persist_result=False)
async def ingest_sharepoint(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of document libraries of SharePoint."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-box", persist_result=False)
async def ingest_box(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of a Box."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-objects", persist_result=False)
async def ingest_objects(batch_id: str, attempt: int) -> State[None]:
    """Ingest files of a bucket, file server or folder."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-github", persist_result=False)
async def ingest_github(batch_id: str, attempt: int) -> State[None]:
    """Ingest issues and Markdown files of a GitHub repository."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-jira", persist_result=False)
async def ingest_jira(batch_id: str, attempt: int) -> State[None]:
    """Ingest issues of a Jira project."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-confluence", persist_result=False)
async def ingest_confluence(batch_id: str, attempt: int) -> State[None]:
    """Ingest pages and blog posts of a Confluence space."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-gitlab", persist_result=False)
async def ingest_gitlab(batch_id: str, attempt: int) -> State[None]:
    """Ingest issues, wiki pages and Markdown files of a GitLab project."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-zendesk", persist_result=False)
async def ingest_zendesk(batch_id: str, attempt: int) -> State[None]:
    """Ingest articles of a Zendesk help center."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-discourse", persist_result=False)
async def ingest_discourse(batch_id: str, attempt: int) -> State[None]:
    """Ingest topics of a Discourse forum."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-wordpress", persist_result=False)
async def ingest_wordpress(batch_id: str, attempt: int) -> State[None]:
    """Ingest posts and pages of a WordPress site."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-slack", persist_result=False)
async def ingest_slack(batch_id: str, attempt: int) -> State[None]:
    """Ingest messages of a Slack channel with their threads."""
    return await run_ingestion(batch_id, attempt)


@flow(name="ingest-freshdesk", persist_result=False)
async def ingest_freshdesk(batch_id: str, attempt: int) -> State[None]:
    """Ingest tickets or solution articles of a Freshdesk help desk."""
    return await run_ingestion(batch_id, attempt)
