"""Conversion of string arguments of agents by a tool's schema."""

from __future__ import annotations

import json
import re
from typing import Any

from api.mcp.calls import WrongArgument

Schema = dict[str, Any]

_NUMBER_PATTERN = re.compile(r"-?\d{1,15}(\.\d{1,17})?([eE][+-]?\d{1,2})?")
_BOOLEAN_WORDS = {"true": True, "false": False}
_EXPECTED_VALUES = {
    "integer": "a whole number, such as 10",
    "number": "a number, such as 0.5",
    "boolean": "true or false",
    "object": "an object, such as {}",
    "array": "a list, such as []",
}


def convert_arguments(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Convert strings to the types of the schema; raise WrongArgument for ambiguous strings."""
    return _convert_properties(arguments, schema, "")


def _convert_properties(values: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {
        name: _convert_value(value, properties[name], f"{path}{name}") if name in properties else value
        for name, value in values.items()
    }


def _convert_value(value: Any, schema: Schema, path: str) -> Any:
    kind = schema.get("type")
    if isinstance(value, str):
        value = _convert_string(value, schema, path)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "object" and isinstance(value, dict):
        return _convert_properties(value, schema, f"{path}.")
    if kind == "array" and isinstance(value, list):
        items = schema.get("items", {})
        return [_convert_value(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _convert_string(text: str, schema: Schema, path: str) -> Any:
    kind, content = schema.get("type"), text.strip()
    # Text stays text even if it looks like JSON: a query may be "5", a document "{}".
    if kind not in _EXPECTED_VALUES:
        return text
    converted: Any = None
    if kind == "boolean":
        converted = _BOOLEAN_WORDS.get(content.lower())
    elif kind in {"integer", "number"} and _NUMBER_PATTERN.fullmatch(content):
        number = float(content)
        converted = int(content) if content.lstrip("-").isdecimal() else number
        if kind == "integer" and not number.is_integer():
            converted = None
    elif kind == "object":
        converted = _parse_json(content, dict)
    elif kind == "array":
        converted = _parse_json(content, list)
        is_single = bool(content) and not content.startswith(("[", "{"))
        if converted is None and is_single and schema.get("items", {}).get("type") == "string":
            converted = [text]
    if converted is None:
        raise WrongArgument(f"{path} must be {_EXPECTED_VALUES[kind]}; {_quote(text)} is not.")
    return converted


def _parse_json(text: str, kind: type) -> Any:
    """Return the JSON value of the type, else None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _quote(text: str) -> str:
    return json.dumps(text if len(text) <= 60 else f"{text[:60]}…")
