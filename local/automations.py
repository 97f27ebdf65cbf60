"""Automation that posts failed and partly failed flow runs to a webhook."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import yaml
from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client

from retrieval import settings

AUTOMATIONS_FILE: Final = settings.PROJECT_ROOT / "deploy" / "prefect" / "automations.yaml"
# The webhook block has the URL.
WEBHOOK_BLOCK: Final = "retrieval-failures"


async def create_automations(url: str) -> list[str]:
    """Create or update the automations of `automations.yaml`; return their names."""
    # URLs of chat services are secrets: a block encrypts them, an automation shows them.
    block_id = await Webhook(url=url).asave(WEBHOOK_BLOCK, overwrite=True)
    definitions: list[dict[str, Any]] = yaml.safe_load(AUTOMATIONS_FILE.read_text())["automations"]
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


def create_for_url(url: str) -> None:
    asyncio.run(create_automations(url))
