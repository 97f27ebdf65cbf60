"""Ingestion flows, one for each source."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from flows.parameters import Connection, Dispatched, Sitemap, Text, Urls, Website, flat_parameters
from flows.requests import run_dispatched, run_source
from flows.tasks import RESULT_STORAGE


@flow(name="ingest-text", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_text(parameters: Text) -> State[None]:
    """Ingest texts sent in the request."""
    return await run_source("TEXT", parameters)


@flow(name="ingest-file", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_file(parameters: Dispatched) -> State[None]:
    """Ingest uploaded files."""
    return await run_dispatched(parameters)


@flow(name="ingest-urls", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_urls(parameters: Urls) -> State[None]:
    """Ingest the pages of a list of URLs."""
    return await run_source("URLS_LIST", parameters)


@flow(name="ingest-sitemap", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_sitemap(parameters: Sitemap) -> State[None]:
    """Ingest the pages of a sitemap."""
    return await run_source("SITEMAP", parameters)


@flow(name="ingest-website", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_website(parameters: Website) -> State[None]:
    """Ingest the pages of a website by following its links."""
    return await run_source("WEBSITE", parameters)


@flow(name="ingest-notion", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_notion(parameters: Connection) -> State[None]:
    """Ingest pages of a Notion workspace."""
    return await run_source("NOTION", parameters)


@flow(name="ingest-gmail", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_gmail(parameters: Connection) -> State[None]:
    """Ingest threads of mails of a Gmail mailbox."""
    return await run_source("GMAIL", parameters)


@flow(name="ingest-google-drive", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_google_drive(parameters: Connection) -> State[None]:
    """Ingest files of a Google Drive."""
    return await run_source("GOOGLE_DRIVE", parameters)


@flow(name="ingest-dropbox", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_dropbox(parameters: Connection) -> State[None]:
    """Ingest files of a Dropbox."""
    return await run_source("DROPBOX", parameters)


@flow(name="ingest-onedrive", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_onedrive(parameters: Connection) -> State[None]:
    """Ingest files of a OneDrive."""
    return await run_source("ONEDRIVE", parameters)


@flow(name="ingest-sharepoint", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_sharepoint(parameters: Connection) -> State[None]:
    """Ingest files of document libraries of SharePoint."""
    return await run_source("SHAREPOINT", parameters)


@flow(name="ingest-box", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_box(parameters: Connection) -> State[None]:
    """Ingest files of a Box."""
    return await run_source("BOX", parameters)


@flow(name="ingest-outlook-mail", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_outlook_mail(parameters: Connection) -> State[None]:
    """Ingest threads of mails of an Outlook mailbox."""
    return await run_source("OUTLOOK_MAIL", parameters)


@flow(name="ingest-objects", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_objects(parameters: Connection) -> State[None]:
    """Ingest files of a bucket, file server or folder."""
    return await run_source("OBJECTS", parameters)


@flow(name="ingest-github", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_github(parameters: Connection) -> State[None]:
    """Ingest issues and Markdown files of a GitHub repository."""
    return await run_source("GITHUB", parameters)


@flow(name="ingest-jira", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_jira(parameters: Connection) -> State[None]:
    """Ingest issues of a Jira project."""
    return await run_source("JIRA", parameters)


@flow(name="ingest-confluence", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_confluence(parameters: Connection) -> State[None]:
    """Ingest pages and blog posts of a Confluence space."""
    return await run_source("CONFLUENCE", parameters)


@flow(name="ingest-gitlab", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_gitlab(parameters: Connection) -> State[None]:
    """Ingest issues, wiki pages and Markdown files of a GitLab project."""
    return await run_source("GITLAB", parameters)


@flow(name="ingest-zendesk", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_zendesk(parameters: Connection) -> State[None]:
    """Ingest articles of a Zendesk help center."""
    return await run_source("ZENDESK", parameters)


@flow(name="ingest-discourse", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_discourse(parameters: Connection) -> State[None]:
    """Ingest topics of a Discourse forum."""
    return await run_source("DISCOURSE", parameters)


@flow(name="ingest-wordpress", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_wordpress(parameters: Connection) -> State[None]:
    """Ingest posts and pages of a WordPress site."""
    return await run_source("WORDPRESS", parameters)


@flow(name="ingest-slack", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_slack(parameters: Connection) -> State[None]:
    """Ingest messages of a Slack channel with their threads."""
    return await run_source("SLACK", parameters)


@flow(name="ingest-custom", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_custom(parameters: Connection) -> State[None]:
    """Ingest documents of a service that the operator describes."""
    return await run_source("CUSTOM", parameters)


@flow(name="ingest-feed", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_feed(parameters: Connection) -> State[None]:
    """Ingest entries of an RSS or Atom feed."""
    return await run_source("FEED", parameters)


@flow(name="ingest-sql", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_sql(parameters: Connection) -> State[None]:
    """Ingest rows of PostgreSQL or MySQL."""
    return await run_source("SQL", parameters)


@flow(name="ingest-teams", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_teams(parameters: Connection) -> State[None]:
    """Ingest posts in channels of Microsoft Teams."""
    return await run_source("TEAMS", parameters)


@flow(name="ingest-freshdesk", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_freshdesk(parameters: Connection) -> State[None]:
    """Ingest tickets or solution articles of a Freshdesk help desk."""
    return await run_source("FRESHDESK", parameters)


@flow(name="ingest-linear", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_linear(parameters: Connection) -> State[None]:
    """Ingest issues, projects and documents of a Linear workspace."""
    return await run_source("LINEAR", parameters)


@flow(name="ingest-servicenow", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_servicenow(parameters: Connection) -> State[None]:
    """Ingest incidents and knowledge articles of a ServiceNow instance."""
    return await run_source("SERVICENOW", parameters)


@flow(name="ingest-hubspot", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_hubspot(parameters: Connection) -> State[None]:
    """Ingest tickets, deals and companies of a HubSpot account."""
    return await run_source("HUBSPOT", parameters)


@flow(name="ingest-asana", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_asana(parameters: Connection) -> State[None]:
    """Ingest tasks and projects of an Asana workspace."""
    return await run_source("ASANA", parameters)


@flow(name="ingest-salesforce", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_salesforce(parameters: Connection) -> State[None]:
    """Ingest cases and Knowledge articles of a Salesforce organization."""
    return await run_source("SALESFORCE", parameters)


@flow(name="ingest-intercom", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_intercom(parameters: Connection) -> State[None]:
    """Ingest conversations and articles of an Intercom workspace."""
    return await run_source("INTERCOM", parameters)


@flow(name="ingest-monday", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_monday(parameters: Connection) -> State[None]:
    """Ingest items of the boards of a monday account."""
    return await run_source("MONDAY", parameters)


@flow(name="ingest-clickup", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_clickup(parameters: Connection) -> State[None]:
    """Ingest tasks and docs of a ClickUp workspace."""
    return await run_source("CLICKUP", parameters)


@flow(name="ingest-airtable", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_airtable(parameters: Connection) -> State[None]:
    """Ingest records of Airtable bases."""
    return await run_source("AIRTABLE", parameters)


@flow(name="ingest-azure-devops", persist_result=False, result_storage=RESULT_STORAGE)
@flat_parameters
async def ingest_azure_devops(parameters: Connection) -> State[None]:
    """Ingest work items and wiki pages of an Azure DevOps organization."""
    return await run_source("AZURE_DEVOPS", parameters)
