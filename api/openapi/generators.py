"""Adjustments of the OpenAPI document for client generators, where they read the wire structs wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.accounts.api_keys import SCOPES
from retrieval.webhooks.events import EVENTS, EVERY

_MODELS = {"OpenAIModel": "OPENAI", "CohereModel": "COHERE", "JinaModel": "JINA", "LocalModel": "LOCAL"}
_CHANGE = "DocumentChange"


def reshape(schemas: dict[str, Any], models: Mapping[str, Sequence[str]]) -> None:
    """Change the schemas in place. `models`: the embedding models of each provider."""
    for schema in schemas.values():
        for name, content in schema.get("properties", {}).items():
            if content.get("enum") in ([True], [False]):
                _fix(schema, name, content)
    for schema, provider in _MODELS.items():
        schemas[schema]["properties"]["model"] |= {"enum": list(models[provider])}
    schemas["KeyScope"] = {"type": "string", "enum": list(SCOPES), "description": "What a key may be allowed to do."}
    schemas["Key"]["properties"]["scopes"]["items"] = {"$ref": "#/components/schemas/KeyScope"}
    for one in schemas["CreateKey"]["properties"]["scopes"]["anyOf"]:
        if one["type"] == "array":
            one["items"] = {"$ref": "#/components/schemas/KeyScope"}
    for schema in ("CreateWebhook", "UpdateWebhook", "Webhook"):
        schemas[schema]["properties"]["events"]["items"] = {"type": "string", "enum": [*EVENTS, EVERY]}
    _part(schemas)


def _fix(schema: dict[str, Any], name: str, content: dict[str, Any]) -> None:
    """A member that is always there with one value: told with its type and as required."""
    content |= {"type": "boolean", "const": content.pop("enum")[0]}
    content.pop("default", None)
    if name not in schema.setdefault("required", []):
        schema["required"].insert(0, name)


def _part(schemas: dict[str, Any]) -> None:
    """`metadata` and `$metadata` become one name in most languages, so that each has a schema of its own."""
    whole = schemas.pop(_CHANGE)["properties"]
    parts = {
        "MetadataMerge": ("metadata", "Merges by key: keys that are not named stay."),
        "MetadataChange": ("$metadata", "Changes by operators; it may stand beside `metadata`."),
    }
    for schema, (name, said) in parts.items():
        schemas[schema] = {
            "title": schema,
            "description": said,
            "type": "object",
            "properties": {name: whole[name]},
            "required": [name],
        }
    schemas["UpdateDocuments"]["properties"]["data"] = {
        "description": "What to change.",
        "anyOf": [{"$ref": f"#/components/schemas/{schema}"} for schema in parts],
    }
