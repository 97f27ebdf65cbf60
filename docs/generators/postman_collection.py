"""Postman collection of the API (format 2.1), with the examples of the reference; also for Bruno and Insomnia."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import api_examples

SCHEMA_URL = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
VARIABLES = {"base_url": "http://127.0.0.1:8000", "api_key": ""}

Schema = Mapping[str, Any]


def build_collection(document: Schema) -> dict[str, Any]:
    """Return the collection: a folder for each tag, a request for each operation."""
    examples = api_examples.Examples(document["components"]["schemas"])
    folders: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            request = _build_request(method.upper(), path, operation, examples)
            item = {"name": operation["summary"], "request": request}
            folders.setdefault(operation["tags"][0], []).append(item)
    return {
        "info": {"name": document["info"]["title"], "schema": SCHEMA_URL},
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{api_key}}", "type": "string"}]},
        "variable": [{"key": name, "value": value} for name, value in VARIABLES.items()],
        "item": [{"name": tag, "item": items} for tag, items in folders.items()],
    }


def _build_request(method: str, path: str, operation: Schema, examples: api_examples.Examples) -> dict[str, Any]:
    segments = re.sub(r"{(\w+)}", r":\1", path).strip("/").split("/")
    query = _list_pairs(examples.build_parameters(path, operation, "query"))
    url: dict[str, Any] = {
        "raw": "{{base_url}}/" + "/".join(segments),
        "host": ["{{base_url}}"],
        "path": segments,
        "query": query,
        "variable": _list_pairs(examples.build_parameters(path, operation, "path")),
    }
    url["raw"] += "?" + "&".join(f"{pair['key']}={pair['value']}" for pair in query) if query else ""
    request: dict[str, Any] = {"method": method, "url": url, "description": operation.get("description", "")}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = json.dumps(examples.build_body(content["application/json"]), indent=2, ensure_ascii=False)
        request["body"] = {"mode": "raw", "raw": body, "options": {"raw": {"language": "json"}}}
    elif "multipart/form-data" in content:
        form = _list_pairs(examples.build_form(content["multipart/form-data"]["schema"]), type="text")
        request["body"] = {"mode": "formdata", "formdata": [*form, {"key": "file", "type": "file", "src": []}]}
    return request


def _list_pairs(values: Mapping[str, Any], **fields: str) -> list[dict[str, str]]:
    return [{"key": name, "value": str(value), **fields} for name, value in values.items()]
