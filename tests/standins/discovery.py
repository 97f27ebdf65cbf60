"""Check requests and answers against a Google discovery document; see `contracts`."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from pathlib import Path


class Discovery:
    """A discovery document; complaints are sentences, "" for valid messages."""

    def __init__(self, path: Path) -> None:
        self._all = json.loads(path.read_text())
        self._validator = cache(self._compiled)

    def method(self, http_method: str, path: str) -> tuple[str, dict[str, str]] | None:
        """Return the method's id and path parameters, or None."""
        for name, method in self._all["methods"].items():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", "/" + self._all["servicePath"] + method["path"])
            if (match := re.fullmatch(pattern, path)) and method["httpMethod"] == http_method:
                return name, match.groupdict()
        return None

    def complaint_on_request(self, method: str, query: dict[str, str]) -> str:
        parameters = self._all["methods"][method]["parameters"]
        for name, value in query.items():
            described = parameters.get(name) or self._all["parameters"].get(name)
            if described is None:
                return f"{method} has no parameter {name}"
            if not _fits(described, value):
                return f"{method} takes no {name}={value}"
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.get("required") and parameter["location"] == "query"
        ]
        missing = [name for name in missing if name not in query]
        return f"{method} needs {missing}" if missing else ""

    def complaint_on_answer(self, method: str, body: Any) -> str:
        name = self._all["methods"][method]["response"]["$ref"]
        error = next(self._validator(name).iter_errors(body), None)
        return f"{method}: {error.message[:300]} at {list(error.absolute_path)}" if error else ""

    def complaint_on_fields(self, method: str, mask: dict[str, Any]) -> str:
        """Complain about requested fields missing from the answer's schema."""
        return self._unknown(mask, {"$ref": self._all["methods"][method]["response"]["$ref"]})

    def _unknown(self, mask: dict[str, Any], schema: dict[str, Any]) -> str:
        schema = self._all["schemas"][schema["$ref"]] if "$ref" in schema else schema
        schema = schema.get("items", schema)
        schema = self._all["schemas"][schema["$ref"]] if "$ref" in schema else schema
        for name, inner in mask.items():
            if name not in schema.get("properties", {}):
                return f"there is no field {name}"
            if inner and (unknown := self._unknown(inner, schema["properties"][name])):
                return unknown
        return ""

    def _compiled(self, name: str) -> Draft202012Validator:
        schemas = {key: _strict(schema) for key, schema in self._all["schemas"].items()}
        return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schemas})


def masked(value: Any, mask: dict[str, Any]) -> Any:
    """Return the requested fields of an answer."""
    if isinstance(value, list):
        return [masked(element, mask) for element in value]
    if not mask or not isinstance(value, dict):
        return value
    return {name: masked(value[name], inner) for name, inner in mask.items() if name in value}


def mask_of(text: str) -> dict[str, Any]:
    """`a,b(c,d(e))` as a tree."""
    root: dict[str, Any] = {}
    stack, last = [root], ""
    for token in re.findall(r"[\w*]+|[(),]", text):
        if token == "(":
            stack.append(stack[-1][last])
        elif token == ")":
            stack.pop()
        elif token != ",":
            last = token
            stack[-1][last] = {}
    return root


def _fits(described: dict[str, Any], value: str) -> bool:
    if described["type"] == "boolean":
        return value in {"true", "false"}
    if described["type"] == "integer":
        number = int(value) if value.isdigit() else -1
        return int(described.get("minimum", 0)) <= number <= int(described.get("maximum", 2**31))
    return value in described.get("enum", [value])


def _strict(schema: Any) -> Any:
    """Return the JSON Schema without additional properties; defaults of enumerations stay."""
    if isinstance(schema, list):
        return [_strict(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) == {"$ref"} or isinstance(schema.get("$ref"), str):
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    strict = {key: _strict(value) for key, value in schema.items() if key not in {"properties", "format", "default"}}
    if "properties" in schema:
        strict["properties"] = {name: _strict(element) for name, element in schema["properties"].items()}
        strict.setdefault("additionalProperties", False)
    return strict
