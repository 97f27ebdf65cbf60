"""An account on loopback at each content service."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager

from tests.standins.place import Account

ACCOUNTS = ("BOX", "ONEDRIVE", "SHAREPOINT", "DROPBOX", "NOTION", "GOOGLE_DRIVE")


def serving_account(connector: str) -> AbstractContextManager[Account]:
    """The account for as long as the block lasts."""
    made: AbstractContextManager[Account] = importlib.import_module(f"tests.standins.{connector.lower()}").serving()
    return made
