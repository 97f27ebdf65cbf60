"""Automation that posts failed and partly failed flow runs to a webhook."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import yaml
from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client

from retrieval import settings

FILE: Final = settings.PROJECT / "deploy" / "prefect" / "automations.yaml"
BLOCK: Final = "retrieval-failures"
"""Name of the webhook block that holds the URL."""


async def create_automations(url: str) -> list[str]:
    """Create the automations of `automations.yaml`, or update those of their names, and return the names."""
    # URLs of chat services are secrets: a block encrypts them, an automation shows them.
    block_id = await Webhook(url=url).asave(BLOCK, overwrite=True)
    definitions: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["automations"]
    for definition in definitions:
        actions = [action | {"block_document_id": block_id} for action in definition["actions"]]
        automation = Automation.model_validate(definition | {"actions": actions})
        async with get_client() as client:
            existing = await client.read_automations_by_name(automation.name)
        if existing:
            automation.id = existing[0].id
            await automation.aupdate()
        else:
            await automation.acreate()
    return [definition["name"] for definition in definitions]


def create(url: str) -> None:
    """Create or update the automations that post to this URL."""
    asyncio.run(create_automations(url))
