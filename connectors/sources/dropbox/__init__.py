"""Dropbox, through its SDK."""

from __future__ import annotations

from connectors.info import ConnectorInfo

INFO = ConnectorInfo(title="Dropbox", account="A Dropbox", documents="Files of a Dropbox")
