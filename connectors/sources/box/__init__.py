"""Box, through its SDK."""

from __future__ import annotations

from connectors.info import ConnectorInfo

INFO = ConnectorInfo(title="Box", account="A Box", documents="Files of a Box")
