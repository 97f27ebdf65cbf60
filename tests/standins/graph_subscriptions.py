"""Subscriptions of Microsoft Graph on loopback.

https://learn.microsoft.com/en-us/graph/api/subscription-post-subscriptions
https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks (the address answers a validation token
as text/plain before the subscription is there; `clientState` is in each notification)
https://learn.microsoft.com/en-us/graph/change-notifications-lifecycle-events
https://learn.microsoft.com/en-us/graph/api/resources/subscription (longest times)
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from tests.standins.faults import Handler

MAX_MINUTES = {"/me/drive/root": 42_300, "/me/messages": 10_080}
VALIDATION_TOKEN = "Validation: Testing client application <reachability> & more"
PATH = "/v1.0/subscriptions"


class Subscriptions:
    """Subscriptions by id, with the fields of their creation."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self.made = 0
        self.renewed = 0
        self.refused = False

    def answer(self, handler: Handler, method: str, path: str, body: bytes) -> None:
        key = path.removeprefix(PATH).strip("/")
        fields = json.loads(body) if body else {}
        if method == "POST":
            self._create(handler, fields)
        elif key not in self.by_id:
            handler.reply(404, {"error": {"code": "ResourceNotFound", "message": "SECRET VENDOR WORDS"}})
        elif method == "DELETE":
            del self.by_id[key]
            handler.reply(204, b"")
        else:
            self.renewed += 1
            self.by_id[key] |= fields
            handler.reply(200, {"id": key, **fields})

    def _create(self, handler: Handler, fields: dict[str, Any]) -> None:
        ends = datetime.fromisoformat(fields["expirationDateTime"])
        is_late = ends > datetime.now(UTC) + timedelta(minutes=MAX_MINUTES[fields["resource"]])
        is_drive = fields["resource"] == "/me/drive/root"
        if is_late or (is_drive and fields["changeType"] != "updated") or len(fields["clientState"]) > 128:
            handler.reply(400, {"error": {"code": "InvalidRequest", "message": "SECRET VENDOR WORDS"}})
            return
        answer = httpx.post(fields["notificationUrl"], params={"validationToken": VALIDATION_TOKEN}, timeout=10)
        is_valid = answer.status_code == 200 and answer.text == VALIDATION_TOKEN
        if self.refused or not is_valid or not answer.headers["content-type"].startswith("text/plain"):
            handler.reply(400, {"error": {"code": "ValidationError", "message": "SECRET VENDOR WORDS"}})
            return
        self.made += 1
        key = f"sub-{self.made}"
        self.by_id[key] = fields
        handler.reply(201, {"id": key, **fields})
