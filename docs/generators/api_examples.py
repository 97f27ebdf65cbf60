"""Examples of the endpoint reference: a curl command, a call of the Python client and a response, from the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from retrieval_client._sync.operations import Operations

Schema = Mapping[str, Any]

_ID_PREFIXES = {
    "namespace": "ns",
    "document": "doc",
    "run": "run",
    "connection": "conn",
    "organization": "org",
    "schedule": "sched",
    "webhook": "wh",
    "key": "key",
    "evaluation": "eval",
    "job": "job",
    "file": "file",
}
_ID_DIGITS = "06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"
# Values of text fields without an example in their schema.
_TEXTS = {
    "content": "Press both latches and lift the cover.",
    "text": "Press both latches and lift the cover.",
    "message": "Success",
    "name": "heat-pump-manual.pdf",
    "title": "Heat pump manual",
    "query": "How do I open the cover?",
    "externalId": "manuals/heat-pump.pdf",
    "url": "https://docs.example.com/heat-pump",
    "language": "english",
    "cursor": "eyJhIjoxfQ",
    "email": "ada@example.com",
    "user": "ada@example.com",
    "reason": "The file is password-protected: retry it with its password.",
    "status": "SUCCESS",
    "provider": "LOCAL",
    "model": "all-MiniLM-L6-v2",
    "version": "0.3.0",
    "identifier": f"ns_{_ID_DIGITS}",
    "source": "LOCAL_FILE",
    "type": "file",
    "documentType": "FILE",
    "documentName": "heat-pump-manual.pdf",
    "filename": "heat-pump-manual.pdf",
    "file": "heat-pump-manual.pdf",
    "path": "manuals/heat-pump.pdf",
    "mimeType": "application/pdf",
    "markdown": "# Heat pump manual",
    "excerpt": "Press both latches",
    "description": "Searches the manuals",
    "about": "Questions about manuals",
    "cron": "0 6 * * 1-5",
    "timeZone": "Europe/Berlin",
    "purpose": "assistants",
    "resource_type": "User",
    "group": "engineering",
    "plan": "pro",
    "connector": "GOOGLE_DRIVE",
    "authorizationUrl": "https://accounts.google.com/o/oauth2/v2/auth?client_id=…",
    "secret": "whsec_…",
    "apiKey": "rk_…",
    "method": "POST",
    "route": "/v1/namespaces",
    "objectType": "namespace",
    "signature": "3yJ2…",
    "expires": "1795176000",
    "contentHash": "9f86d081884c7d65…",
    "matchedTerm": "latches",
    "missingTerm": "hinge",
    "search_query": "How do I open the cover?",
    "principal": "ada@example.com",
    "keyName": "ingest service",
}
# Names by the type of their object.
_NAMES = {
    "Namespace": "Product manuals",
    "Connection": "Team drive",
    "Webhook": "Search index",
    "Evaluation": "Support questions",
    "Organization": "Acme",
    "Key": "ingest service",
    "Group": "engineering",
}
_NUMBERS = {"score": 0.82, "page": 3, "status": 200, "topK": 5}
# Fields that hold null where nothing is wrong, or nothing follows.
_USUALLY_NULL = frozenset(
    {"error", "statusReason", "nextCursor", "prefectUrl", "clientRedirectUrl", "hint", "ingestionError", "warning"}
)
_MAX_DEPTH = 7


class Examples:
    """Examples of a document's operations."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas

    def render(self, method: str, path: str, operation: Schema) -> list[str]:
        """Return the lines of the tabs curl and Python, and of a response."""
        content = operation.get("requestBody", {}).get("content", {})
        tabs = [("curl", "bash", self._render_curl(method, path, operation, content))]
        if call := self._render_call(path, operation, content):
            tabs.append(("Python", "python", call))
        lines = []
        for title, language, code in tabs:
            block = [f"```{language}", *code.splitlines(), "```"]
            lines += [f'=== "{title}"', "", *(f"    {line}" for line in block), ""]
        answer = next(response for status, response in operation["responses"].items() if status.startswith("2"))
        if "application/json" in answer.get("content", {}):
            example = self.build_response(answer["content"]["application/json"]["schema"])
            lines += ["A response:", "", "```json", json.dumps(example, indent=2, ensure_ascii=False), "```", ""]
        return lines

    def build_response(self, schema: Schema) -> Any:
        """Build a value of a response with all required fields."""
        return self._build(schema, "", "", 0)

    def _render_curl(self, method: str, path: str, operation: Schema, content: Schema) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.build_parameters(path, operation, "query").items())
        address = self._fill_path(path, operation) + (f"?{query}" if query else "")
        parts = [f'curl -sS {"" if method == "GET" else f"-X {method} "}"$API{address}"']
        parts.append('-H "Authorization: Bearer $API_KEY"')
        if "application/json" in content:
            body = json.dumps(self.build_body(content["application/json"]), ensure_ascii=False).replace("'", "'\\''")
            parts += ['-H "Content-Type: application/json"', f"-d '{body}'"]
        elif "multipart/form-data" in content:
            form = self.build_form(content["multipart/form-data"]["schema"])
            parts += [f"-F {name}={value}" for name, value in form.items()] + ["-F file=@heat-pump-manual.pdf"]
        return " \\\n  ".join(parts)

    def _render_call(self, path: str, operation: Schema, content: Schema) -> str:
        """Return the call of the client's method; "" for operations without a method."""
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", operation["operationId"]).lower()
        if not hasattr(Operations, name):
            return ""
        arguments = [_format_literal(value) for value in self.build_parameters(path, operation, "path").values()]
        if "application/json" in content:
            body = self.build_body(content["application/json"])
            arguments.append(_format_literal(body))
        elif "multipart/form-data" in content:
            form = self.build_form(content["multipart/form-data"]["schema"])
            arguments += [_format_literal(form), '("heat-pump-manual.pdf", Path("heat-pump-manual.pdf").read_bytes())']
        for parameter, value in self.build_parameters(path, operation, "query").items():
            snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", parameter).lower()
            arguments.append(f"{snake}={_format_literal(value)}")
        return f"client.api.{name}({', '.join(arguments)})"

    def _fill_path(self, path: str, operation: Schema) -> str:
        for name, value in self.build_parameters(path, operation, "path").items():
            path = path.replace(f"{{{name}}}", str(value))
        return path

    def build_parameters(self, path: str, operation: Schema, place: str) -> dict[str, Any]:
        """Return values of the required parameters by name."""
        return {
            parameter["name"]: self._build(parameter["schema"], parameter["name"], path, 0)
            for parameter in operation.get("parameters", ())
            if parameter["in"] == place and parameter["required"]
        }

    def build_body(self, content: Schema) -> Any:
        """Build the body of a request."""
        return content["example"] if "example" in content else self._build(content["schema"], "", "", 0)

    def build_form(self, schema: Schema) -> dict[str, str]:
        """Build the text fields of a form."""
        values = self._build(schema, "", "", 0)
        return {name: value for name, value in values.items() if name != "file"}

    def _build(self, schema: Schema, name: str, owner: str, depth: int) -> Any:
        """Build a value of a field `name` of the type `owner`."""
        if reference := schema.get("$ref"):
            title = reference.rpartition("/")[2]
            return self._build(self._schemas[title], name, title, depth)
        given = [schema[key] for key in ("example", "const") if key in schema]
        if values := given or [*schema.get("examples", ()), *schema.get("enum", ())]:
            return values[0]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            described = [option for option in options if option.get("type") != "null"]
            is_null = not described or (name in _USUALLY_NULL and len(described) < len(options))
            return None if is_null else self._build(described[0], name, owner, depth)
        return self._build_plain(schema, name, owner, depth)

    def _build_plain(self, schema: Schema, name: str, owner: str, depth: int) -> Any:
        if schema.get("type") in ("object", "array"):
            return self._build_container(schema, name, owner, depth)
        if schema.get("type") in ("integer", "number"):
            return _build_number(schema, name)
        if schema.get("type") == "boolean":
            return schema.get("default", True)
        return None if schema.get("type") == "null" else _build_text(schema, name, owner)

    def _build_container(self, schema: Schema, name: str, owner: str, depth: int) -> Any:
        if schema["type"] == "array":
            item = self._build(schema.get("items", {}), name.removesuffix("s"), owner, depth + 1)
            return [item] * max(1, schema.get("minItems", 1)) if depth <= _MAX_DEPTH else []
        fields = schema.get("properties", {}) if depth <= _MAX_DEPTH else {}
        required = [field for field in fields if field in schema.get("required", ())]
        return {field: self._build(fields[field], field, owner or name, depth + 1) for field in required}


def _build_number(schema: Schema, name: str) -> float:
    low: float = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else 1)
    value = _NUMBERS.get(name, low)
    return value if schema["type"] == "number" and low <= value <= schema.get("maximum", value) else low


def _build_text(schema: Schema, name: str, owner: str) -> str:
    if schema.get("format") == "date-time":
        return "2026-11-20T12:00:00.000Z"
    if name.lower().endswith("id") and name != "externalId":
        subject = f"{name} {owner}".lower()
        prefix = next((prefix for word, prefix in _ID_PREFIXES.items() if word in subject), "id")
        return f"{prefix}_{_ID_DIGITS}"
    return next((text for word, text in _NAMES.items() if name == "name" and word in owner), _TEXTS.get(name, name))


def _format_literal(value: Any) -> str:
    """Format a JSON value as Python, short values in one line."""
    short = json.dumps(value, ensure_ascii=False)
    text = short if len(short) < 80 else json.dumps(value, ensure_ascii=False, indent=4)
    words = {"true": "True", "false": "False", "null": "None"}
    return re.sub(r"(?<=[ \[\n])(true|false|null)(?=[,\n\]}])", lambda match: words[match[1]], text)
