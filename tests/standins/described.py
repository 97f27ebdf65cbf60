"""A judge of JSON requests and answers by a vendor's own OpenAPI description, which lies in `contracts`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from jsonschema import ValidationError


class Described:
    """A description. What is wrong with a message is said in words; "" is nothing."""

    def __init__(self, path: Path) -> None:
        self._all = _mended(json.loads(path.read_text()))
        self._validator = cache(lambda schema: Draft202012Validator(json.loads(schema)))
        self._answers = cache(self._of_answer)

    def complaint_on_request(self, path: str, method: str, body: Any) -> str:
        """Also where it holds fields that the description does not know."""
        described = self._all["paths"][path][method].get("requestBody")
        if described is None:
            return ""
        schema = self._resolved(described["content"]["application/json"]["schema"])
        unknown = sorted(set(body) - set(schema["properties"])) if isinstance(body, dict) else []
        return self._complaint(schema, body) or (f"unknown fields: {unknown}" if unknown else "")

    def complaint_on_query(self, path: str, method: str, query: dict[str, str]) -> str:
        """Also where it holds parameters that the description does not know."""
        known = {
            one["name"]: one["schema"] for one in self._all["paths"][path][method]["parameters"] if one["in"] == "query"
        }
        for name, text in query.items():
            if name not in known:
                return f"unknown parameter: {name}"
            if complaint := self._complaint(known[name], _read(text, known[name].get("type"))):
                return f"{name}: {complaint}"
        return ""

    def complaint_on_answer(self, path: str, method: str, body: Any) -> str:
        """Of an answer of status 200."""
        return _words(next(self._answers(path, method).iter_errors(_thinned(body)), None))

    def _of_answer(self, path: str, method: str) -> Draft202012Validator:
        described = self._all["paths"][path][method]["responses"]["200"]
        return Draft202012Validator(self._resolved(described["content"]["application/json"]["schema"]))

    def _complaint(self, schema: Any, body: Any) -> str:
        return _words(next(self._validator(json.dumps(schema)).iter_errors(_thinned(body)), None))

    def _resolved(self, schema: Any) -> Any:
        """The schema with what it refers to put in its place."""
        if isinstance(schema, list):
            return [self._resolved(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._resolved(self._all["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        return {name: self._resolved(value) for name, value in schema.items()}


def _words(error: ValidationError | None) -> str:
    return f"{error.message[:200]} at {list(error.absolute_path)}" if error else ""


def _read(text: str, kind: str | None) -> Any:
    """A query's value, of the kind that is described; the text itself if it is none."""
    if kind == "integer" and text.lstrip("-").isdigit():
        return int(text)
    if kind == "boolean" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return text.split(",") if kind == "array" else text


def _mended(schema: Any) -> Any:
    """One vendor bounds arrays with the words for strings, and has `required` where no object is; null may be said
    with a word of its own."""
    if isinstance(schema, list):
        return [_mended(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("nullable") is True:
        rest = {name: value for name, value in schema.items() if name != "nullable"}
        return {"anyOf": [{"type": "null"}, _mended(rest)]}
    names = {"minLength": "minItems", "maxLength": "maxItems"} if schema.get("type") == "array" else {}
    misplaced = str(schema.get("type")) in {"array", "string", "integer"}
    return {
        names.get(name, name): _mended(value)
        for name, value in schema.items()
        if not (misplaced and name == "required")
    }


def _thinned(value: Any) -> Any:
    """A list of nothing but numbers stands for itself by its first: vectors are long, and looked at one by one slow."""
    if isinstance(value, dict):
        return {name: _thinned(one) for name, one in value.items()}
    if isinstance(value, list):
        numbers = len(value) > 1 and all(type(one) in {float, int} for one in value)
        return value[:1] if numbers else [_thinned(one) for one in value]
    return value
