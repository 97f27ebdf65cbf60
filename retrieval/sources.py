"""Ingestion sources by contract name, with derived names and groups."""

from __future__ import annotations

from collections.abc import Mapping

# Services whose app people authorize; each is a package in `connectors/sources`.
APP_SERVICES = ("NOTION", "GOOGLE_DRIVE", "DROPBOX", "ONEDRIVE", "SHAREPOINT", "BOX", "OUTLOOK_MAIL", "GMAIL")

# Services defined in YAML in `connectors/sources/described`.
DESCRIBED_SOURCES = (
    "GITHUB",
    "JIRA",
    "CONFLUENCE",
    "GITLAB",
    "ZENDESK",
    "DISCOURSE",
    "WORDPRESS",
    "SLACK",
    "FRESHDESK",
    "LINEAR",
    "TEAMS",
    "SERVICENOW",
    "HUBSPOT",
    "ASANA",
    "SALESFORCE",
    "INTERCOM",
    "MONDAY",
    "CLICKUP",
    "AIRTABLE",
    "AZURE_DEVOPS",
)

# Connections with address and credentials in the request, without an app.
CREDENTIAL_SOURCES = ("OBJECTS", *DESCRIBED_SOURCES, "CUSTOM", "FEED", "SQL")

# Content services that also take an organization's credentials in the request, without an app.
ORGANIZATION_SOURCES = ("GOOGLE_DRIVE", "ONEDRIVE", "SHAREPOINT", "BOX", "DROPBOX", "GMAIL")

# All sources with connections.
CONNECTED_SOURCES = (*APP_SERVICES, *CREDENTIAL_SOURCES)

# Raw files exist only in this service.
STORED_SOURCES = frozenset({"TEXT", "LOCAL_FILE"})

WEB_SOURCES = frozenset({"URLS_LIST", "SITEMAP", "WEBSITE"})


def source_slug(name: str) -> str:
    """Return the name in paths and flows: GOOGLE_DRIVE is google-drive."""
    return name.lower().replace("_", "-")


def source_type_name(name: str) -> str:
    """Return the name in types: GOOGLE_DRIVE is GoogleDrive."""
    return "".join(word.capitalize() for word in name.split("_"))


def _config(name: str) -> str:
    return f"{name[0].lower()}{source_type_name(name)[1:]}Config"


# Namespace config of the OAuth app by content service, such as googleDriveConfig.
APP_CONFIGS: Mapping[str, str] = {name: _config(name) for name in APP_SERVICES}

MISSING_APP_MESSAGE = "The namespace has no {app}: set it first, with the client id and secret of your app."

# Document type by source with discovery.
DOCUMENT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(sorted(WEB_SOURCES), "URL"),
    **{name: f"{name}_DOCUMENT" for name in CONNECTED_SOURCES},
}

# Sources with documents that can be fetched again.
FETCHED_SOURCES = frozenset(DOCUMENT_TYPES)
