"""Markdown pages of the endpoint reference, from the service's OpenAPI document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import api_examples

Schema = Mapping[str, Any]

FOLDER = "reference/api"
TYPES_PAGE = "types.md"
# Every operation may answer these; docs/reference/api/errors.md describes them once.
COMMON_CODES = frozenset(
    {
        "UNAUTHORIZED",
        "FORBIDDEN",
        "RATE_LIMIT_EXCEEDED",
        "SERVICE_UNAVAILABLE",
        "REQUEST_TIMEOUT",
        "PAYLOAD_TOO_LARGE",
        "UNSUPPORTED_MEDIA_TYPE",
        "IDEMPOTENCY_CONFLICT",
        "INTERNAL_ERROR",
        "missing_tenant_id",
        "invalid_tenant_id",
    }
)
PERMISSIONS_HEAD = """\
# Permissions

What each operation needs, what keys with bounds and requests on behalf of a user get of it
([rules](api/authentication.md#api-keys)), and the least [role](../access.md#keys-and-roles) of people who may do it.

| Operation | Scope | A key bound to a namespace | A key bound to a tenant | On behalf of a user | Role |
|---|---|---|---|---|---|"""
_CLIENT_NOTE = """\
In examples, `client` is the [Python client](../../guides/clients.md); `API` and `API_KEY` are those of a server."""
_ENVELOPE = ("success", "message", "data")  # of every answer; docs/reference/api/overview.md describes them
_RANGES = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " entries"))


def render_pages(document: Schema) -> dict[str, str]:
    """Return Markdown by path in the site: a page per tag, and a page of shared types."""
    return _Reference(document).render()


def render_permissions(permissions: Mapping[str, Any], role_scopes: Mapping[str, frozenset[str]]) -> str:
    """Return the Markdown of the table of permissions by operation."""
    rows = (
        f"| {name} | {f'`{permission.scope}`' if permission.scope else 'any'} | {permission.namespace_keys} "
        f"| {permission.tenant_keys} | {'yes' if permission.allows_on_behalf else '403'} "
        f"| `{_least_role(permission, role_scopes)}` |"
        for name, permission in permissions.items()
    )
    return "\n".join([PERMISSIONS_HEAD, *rows, ""])


def _least_role(permission: Any, role_scopes: Mapping[str, frozenset[str]]) -> str:
    """Return the first role allowed to call the operation. Viewers only read, for themselves."""
    for role, scopes in role_scopes.items():
        is_scoped = permission.scope is None or permission.scope in scopes
        if is_scoped and (
            permission.allows_on_behalf if role == "viewer" else role == "admin" or not permission.needs_admin_role
        ):
            return role
    raise ValueError(f"No role has the scope {permission.scope}.")


def page_of_tag(tag: str) -> str:
    """Return the path of the page of a tag."""
    return f"{FOLDER}/{tag.lower().replace(' ', '-')}.md"


class _Reference:
    def __init__(self, document: Schema) -> None:
        self._paths = document["paths"]
        self._schemas: Mapping[str, Schema] = document["components"]["schemas"]
        self._examples = api_examples.Examples(self._schemas)
        uses = Counter(_references(document["paths"]) + _references(self._schemas))
        self._request_types = self._reachable_from_requests()
        linked = set(_alternatives([document["paths"], self._schemas]))
        self._inline = {
            name
            for name, schema in self._schemas.items()
            if uses[name] == 1 and "properties" in schema and name not in linked
        }

    def _reachable_from_requests(self) -> set[str]:
        """Return the names of types in requests: only these mark required fields."""
        bodies = [operation.get("requestBody", {}) for path in self._paths.values() for operation in path.values()]
        reached: set[str] = set()
        pending = set(_references(bodies))
        while pending:
            reached |= pending
            pending = {name for user in pending for name in _references(self._schemas[user])} - reached
        return reached

    def render(self) -> dict[str, str]:
        sections: dict[str, list[str]] = {}
        for path, methods in self._paths.items():
            for method, operation in methods.items():
                section = self._render_operation(method.upper(), path, operation)
                sections.setdefault(operation["tags"][0], []).append(section)
        pages = {
            page_of_tag(tag): f"# {tag}\n\n{_CLIENT_NOTE}\n\n" + "\n".join(parts) for tag, parts in sections.items()
        }
        pages[f"{FOLDER}/{TYPES_PAGE}"] = self._render_types(pages)
        return pages

    def _render_operation(self, method: str, path: str, operation: Schema) -> str:
        lines = [f"## {operation['summary']}", "", "```text", f"{method} {path}", "```", ""]
        lines += [_escape(operation.get("description", "")), ""]
        parameters = [self._render_parameter(parameter) for parameter in operation.get("parameters", [])]
        if parameters:
            lines += ["| Parameter | In | Type | Meaning |", "|---|---|---|---|", *parameters, ""]
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            lines += [f"**Request**, `{media_type}`:", "", *self._render_fields(content["schema"], required=True)]
        lines += self._render_answer(operation["responses"])
        lines += self._examples.render(method, path, operation)
        lines += self._render_errors(operation["responses"])
        return "\n".join(lines)

    def _render_parameter(self, parameter: Schema) -> str:
        schema = parameter["schema"]
        meaning = self._explain(schema, parameter.get("description"), required=parameter["required"])
        return f"| {_format_name(parameter['name'])} | {parameter['in']} | {self._name_type(schema)} | {meaning} |"

    def _render_answer(self, responses: Schema) -> list[str]:
        answer = next(response for status, response in responses.items() if status.startswith("2"))
        lines = [f"**Answer**: {_escape(answer['description'])}", ""]
        for media_type, content in answer.get("content", {}).items():
            schema = self._resolve(content["schema"])
            if "properties" in schema:
                lines += self._render_fields(schema, required=False)
            else:
                lines += [f"`{media_type}`.", ""]
        return lines

    def _render_errors(self, responses: Schema) -> list[str]:
        rows = []
        for status, response in responses.items():
            content = response.get("content", {})
            examples = next(iter(content.values())).get("examples", {}) if content else {}
            codes = [code for code in examples if code not in COMMON_CODES]
            rows += [f"{status} `{code}`" for code in codes]
        text = ", ".join(rows)
        common = "and those [of every operation](errors.md)"
        return [f"**Errors**: {text}, {common}." if text else f"**Errors**: {common.removeprefix('and ')}.", ""]

    def _render_types(self, pages: Mapping[str, str]) -> str:
        """Render all types linked from pages, or from these types."""
        sections: dict[str, str] = {}
        pending = {name for text in pages.values() for name in _linked_types(text)}
        while pending:
            name = pending.pop()
            schema = self._schemas[name]
            text = f"## {name}\n\n{_escape(schema.get('description', ''))}\n\n"
            text += "\n".join(self._render_fields(schema, required=name in self._request_types))
            sections[name] = text
            pending |= _linked_types(text) - sections.keys()
        return "# Types\n\nObjects that several operations share.\n\n" + "\n".join(
            sections[name] for name in sorted(sections)
        )

    def _render_fields(self, schema: Schema, *, required: bool) -> list[str]:
        schema = self._resolve(schema)
        if "properties" not in schema:
            return [self._name_type(schema), ""]
        rows = []
        for name, field, mandatory in self._flatten(schema, ""):
            if required or name not in _ENVELOPE:
                meaning = self._explain(field, None, required=mandatory and required)
                rows.append(f"| {_format_name(name)} | {self._name_type(field)} | {meaning} |")
        return ["| Field | Type | Meaning |", "|---|---|---|", *rows, ""] if rows else []

    def _flatten(self, schema: Schema, prefix: str) -> Iterator[tuple[str, Schema, bool]]:
        """Yield fields by path; objects used in a single place are expanded there."""
        for name, field in schema["properties"].items():
            yield f"{prefix}{name}", field, name in schema.get("required", ())
            for nested, suffix in self._nested(field):
                yield from self._flatten(nested, f"{prefix}{name}{suffix}.")

    def _nested(self, field: Schema) -> Iterator[tuple[Schema, str]]:
        options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
        if len(options) != 1:
            return
        (option,) = options
        item = option.get("items", {}) if option.get("type") == "array" else option
        name = _name_of(item)
        if name and name in self._inline:
            yield self._schemas[name], "[]" if item is not option else ""

    def _resolve(self, schema: Schema) -> Schema:
        name = _name_of(schema)
        return self._schemas[name] if name else schema

    def _name_type(self, schema: Schema) -> str:
        name = _name_of(schema)
        if name:
            target = self._schemas[name]
            if "enum" in target:
                return self._name_type(target)
            return "object" if name in self._inline else f"[{name}]({TYPES_PAGE}#{name.lower()})"
        if "anyOf" in schema:
            options = [self._name_type(option) for option in schema["anyOf"]]
            return " or ".join(dict.fromkeys(options))
        if "const" in schema or "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
        return self._name_plain_type(schema)

    def _name_plain_type(self, schema: Schema) -> str:
        if schema.get("type") == "array":
            return f"array of {self._name_type(schema.get('items', {}))}"
        if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            return f"object of {self._name_type(schema['additionalProperties'])}"
        if schema.get("format") == "binary":
            return "binary"
        if schema.get("contentMediaType") == "application/json":
            return f"JSON text of {self._name_type(schema['contentSchema'])}"
        return str(schema.get("type", "any"))

    def _explain(self, schema: Schema, meaning: str | None, *, required: bool) -> str:
        options = [schema, *schema.get("anyOf", ()), schema.get("contentSchema", {})]
        types = [self._schemas[name] for option in options if (name := _name_of(option))]
        texts = [option["description"] for option in [*options, *types] if "description" in option]
        parts = [_escape(meaning or (texts[0] if texts else ""))]
        parts += [bounds for option in options for bounds in _bounds_of(option)]
        default = schema.get("default")
        if default is not None and default != []:
            parts.append(f"Default `{json.dumps(default)}`.")
        text = " ".join(part[0].upper() + part[1:] for part in parts if part).replace("|", "\\|")
        return f"Required. {text}".rstrip() if required else text


def _format_name(name: str) -> str:
    """Return a field's path as code with line breaks only after dots; the theme breaks code anywhere."""
    return f'<code style="word-break: normal">{name.replace(".", ".<wbr>")}</code>'


def _bounds_of(schema: Schema) -> Iterator[str]:
    for low, high, unit in _RANGES:
        if low in schema and high in schema:
            yield f"{schema[low]:,} to {schema[high]:,}{unit}."
        elif high in schema:
            yield f"At most {schema[high]:,}{unit}."
        elif low in schema and (low, schema[low]) != ("minLength", 1):
            yield f"At least {schema[low]:,}{unit if schema[low] > 1 else unit.replace('ies', 'y')}."
    if "exclusiveMinimum" in schema:
        yield f"Above {schema['exclusiveMinimum']}."
    if "pattern" in schema:
        yield f"Pattern `{schema['pattern']}`."


def _name_of(schema: Schema) -> str | None:
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if reference else None


def _references(node: Any) -> list[str]:
    if isinstance(node, Mapping):
        own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
        return own + [name for value in node.values() for name in _references(value)]
    return [name for value in node for name in _references(value)] if isinstance(node, list) else []


def _alternatives(node: Any) -> Iterator[str]:
    """Yield the types with a section of their own: members of a union, and types of JSON text in a form."""
    if isinstance(node, Mapping):
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        yield from _references(options) if len(options) > 1 else _references(node.get("contentSchema"))
        for value in node.values():
            yield from _alternatives(value)
    elif isinstance(node, list):
        for value in node:
            yield from _alternatives(value)


def _linked_types(text: str) -> set[str]:
    return set(re.findall(rf"\[(\w+)\]\({TYPES_PAGE}#", text))


def _escape(text: str) -> str:
    """Join lines, and escape `<` outside of code."""
    joined = " ".join(text.split())
    return re.sub(r"`[^`]*`|<", lambda match: match[0] if match[0] != "<" else "&lt;", joined)
