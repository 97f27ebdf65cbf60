"""Ingestion sources by their contract names, and what follows from each."""

from __future__ import annotations

from collections.abc import Mapping

STORED = frozenset({"TEXT", "LOCAL_FILE"})
"""Whose raw files are the source: nobody else has them."""

WEB = frozenset({"URLS_LIST", "SITEMAP", "WEBSITE"})
"""Pages of the web; their HTML is read as web pages are."""

APPS: Mapping[str, str] = {
    "NOTION": "notionConfig",
    "GOOGLE_DRIVE": "googleDriveConfig",
    "DROPBOX": "dropboxConfig",
    "ONEDRIVE": "onedriveConfig",
    "SHAREPOINT": "sharepointConfig",
    "BOX": "boxConfig",
}
"""Content services, read through a connection, and the namespace's config of the app that people authorize."""

DOCUMENT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(sorted(WEB), "URL"),
    **{name: f"{name}_DOCUMENT" for name in APPS},
}
"""Sources whose job runs find out what to ingest, and the type of their documents (D16)."""

FETCHED = frozenset(DOCUMENT_TYPES)
"""Sources that each document can be fetched from anew."""
