"""Ingestion sources by their contract names, and what follows from each."""

from __future__ import annotations

from collections.abc import Mapping

CONNECTORS = ("NOTION", "GOOGLE_DRIVE", "DROPBOX", "ONEDRIVE", "SHAREPOINT", "BOX")
"""Content services, read through a connection. Each is the package of its name in `connectors/sources`."""

DESCRIBED = (
    "GITHUB",
    "JIRA",
    "CONFLUENCE",
    "GITLAB",
    "ZENDESK",
    "DISCOURSE",
    "WORDPRESS",
    "SLACK",
    "FRESHDESK",
)
"""Services that are read by a description, the YAML of their name in `connectors/sources/described`."""

ENGINES = ("OBJECTS", *DESCRIBED)
"""Sources whose connections have their address and credentials from a request, without an app. They share one path."""

CONNECTED = (*CONNECTORS, *ENGINES)
"""Every source that is read through a connection."""

STORED = frozenset({"TEXT", "LOCAL_FILE"})
"""Sources whose raw files are stored only here."""

WEB = frozenset({"URLS_LIST", "SITEMAP", "WEBSITE"})
"""Pages of the web; their HTML is read as web pages are."""


def source_slug(name: str) -> str:
    """A source as paths and flows spell it: GOOGLE_DRIVE is google-drive."""
    return name.lower().replace("_", "-")


def source_type_name(name: str) -> str:
    """A source as types spell it: GOOGLE_DRIVE is GoogleDrive."""
    return "".join(word.capitalize() for word in name.split("_"))


def _config(name: str) -> str:
    return f"{name[0].lower()}{source_type_name(name)[1:]}Config"


APPS: Mapping[str, str] = {name: _config(name) for name in CONNECTORS}
"""Content services and the namespace's config of the app that people authorize, such as googleDriveConfig."""

DOCUMENT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(sorted(WEB), "URL"),
    **{name: f"{name}_DOCUMENT" for name in CONNECTED},
}
"""Sources whose job runs find out what to ingest, and the type of their documents."""

FETCHED = frozenset(DOCUMENT_TYPES)
"""Sources that each document can be fetched from anew."""
