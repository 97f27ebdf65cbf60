"""An account on loopback at each content service."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import cast

from tests.standins import described_services
from tests.standins.place import Account

ACCOUNTS = ("BOX", "ONEDRIVE", "SHAREPOINT", "DROPBOX", "NOTION", "GOOGLE_DRIVE", "OUTLOOK_MAIL", "GMAIL")


def serving_account(connector: str) -> AbstractContextManager[Account]:
    """The account for as long as the block lasts."""
    if connector in {*described_services.SERVICES, "GITLAB_GROUP"}:
        return cast("AbstractContextManager[Account]", described_services.serving(connector))
    account: AbstractContextManager[Account] = importlib.import_module(f"tests.standins.{connector.lower()}").serving()
    return account
