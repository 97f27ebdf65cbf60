"""Objects of a storage: a bucket, a file server or a folder, named by the URL of the connection."""

from __future__ import annotations

from connectors.info import ConnectorInfo

INFO = ConnectorInfo(
    title="object storage", account="A bucket or folder", documents="Files of a bucket, file server or folder"
)
