"""Arguments and results of the tools, as JSON schemas with the words that a model needs."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def number(description: str, **more: Any) -> Schema:
    return {"type": "integer", "description": description, **more}


def strings(description: str, **more: Any) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description, **more}


def open_object(description: str) -> Schema:
    return {"type": "object", "description": description}


def arguments(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """What a tool takes; unknown arguments are left out, as they are over HTTP."""
    return {"type": "object", "properties": properties, "required": list(required)}


def result(**properties: Schema) -> Schema:
    """What a tool answers with beside text."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAMESPACE = text("The namespace's id (`ns_…`), as list_namespaces tells it. A key of one namespace may leave it out.")
METADATA = open_object('Free-form metadata to find the document by later, such as {"topic": "seals"}.')
FILTER = open_object(
    'Only documents that match: {"metadata": {key: value}}, {"documents": {"documentIds": [...]}} or {"where":'
    ' {"field": "document.createdAt", "op": "gte", "value": "2026-01-01"}}, where conditions nest by'
    ' {"all": [...]}, {"any": [...]} and {"not": ...}.'
)
HYBRID = {
    "type": "object",
    "description": "Search by words, too: two weights that sum to 1. Half and half suits names, codes and exact terms;"
    " without it the search is by meaning alone.",
    "properties": {
        "semanticWeight": {"type": "number", "minimum": 0, "maximum": 1},
        "keywordWeight": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["semanticWeight", "keywordWeight"],
}
EXPAND = {
    "type": "object",
    "description": "Also answer what surrounds each passage, in `context`: its chunk, section, page or document, cut to"
    " maxTokens.",
    "properties": {
        "unit": {"type": "string", "enum": ["CHUNK", "SECTION", "PAGE", "DOCUMENT"]},
        "maxTokens": {"type": "integer", "minimum": 1, "maximum": 8000},
    },
    "required": ["unit"],
}
HIT = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "score": {"type": "number"},
        "document": {"type": "object"},
        "chunk": {"type": "object", "description": "index, start, end (characters of the parsed text), page or null"},
        "metadata": {"type": "object"},
        "context": {"type": "object"},
        "url": {
            "type": "string",
            "description": "signed, to the parsed text; for keys with documents:read",
        },
    },
    "required": ["content", "score", "document", "chunk"],
}
OBJECTS = {"type": "array", "items": {"type": "object"}}
