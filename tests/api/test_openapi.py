"""OpenAPI document: complete enough for client generators, viewer without foreign hosts."""

from __future__ import annotations

import re

import jsonschema
import openapi_spec_validator

from tests.api.description import DOCUMENT
from tests.api.support import Failures

OPERATIONS = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]


def resolved(schema):
    """Return the schema with referenced components inlined."""
    return {**schema, "components": DOCUMENT["components"]}


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_description_is_served_as_generated(anonymous):
    answer = anonymous.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["paths"].keys() == DOCUMENT["paths"].keys()


def test_operation_ids_are_unique_and_everything_is_described():
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z][A-Za-z]+", part) for part in ids)
    assert all(operation["summary"] for _, _, operation in OPERATIONS)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert re.fullmatch("[A-Z][A-Za-z0-9]+", name)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema.get("description") or "enum" in schema, name


def is_described(schema):
    # Described directly, by the referenced component, or by a single allowed value.
    parts = [schema, *schema.get("anyOf", []), schema.get("items", {})]
    return (
        "const" in schema
        or len(schema.get("enum", [])) == 1
        or any({"description", "$ref"} & set(part) for part in parts)
    )


def test_every_property_and_every_parameter_is_described():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for key, content in schema.get("properties", {}).items():
            assert is_described(content), f"describe {name}.{key} with Meta(description=...)"
    for (_, _, operation), name in zip(OPERATIONS, NAMES, strict=True):
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), f"describe {parameter['name']} of {name} in api/openapi.py"


def test_it_is_a_valid_description_of_an_api():
    openapi_spec_validator.validate(DOCUMENT)


def test_every_operation_has_the_fields_for_generators():
    for (method, _, operation), name in zip(OPERATIONS, NAMES, strict=True):
        assert len(operation["tags"]) == 1, name
        assert operation.get("description"), name
        for status, response in operation["responses"].items():
            assert response["description"], (name, status)
            contents = response.get("content", {})
            assert contents or status in {"204", "302"}, (name, status)
            for kind, media in contents.items():
                assert media.get("schema") or kind == "*/*", (name, status)
            if "application/json" in contents and int(status) >= 400 and name != "get /ready":
                media = contents["application/json"]
                assert {"ErrorAnswer", "TenantErrorAnswer"} >= set(re.findall(r"\w+Answer", str(media["schema"])))
                assert media["examples"], (name, status)
        if method in {"post", "patch", "delete"} and "requestBody" in operation:
            assert operation["requestBody"]["required"], name
            for media in operation["requestBody"]["content"].values():
                assert "example" in media or "properties" in media["schema"], name


def test_every_number_of_a_request_has_bounds():
    # Except counts limited by settings; the description names the limit.
    schemas = DOCUMENT["components"]["schemas"]
    request_schemas = {
        reference.rpartition("/")[2]
        for _, _, operation in OPERATIONS
        for reference in all_references(operation.get("requestBody", {}))
    }
    for name in request_schemas:
        for key, property_schema in schemas[name].get("properties", {}).items():
            for variant in [property_schema, *property_schema.get("anyOf", [])]:
                if variant.get("type") in {"integer", "number"}:
                    assert "minimum" in variant or "exclusiveMinimum" in variant, f"{name}.{key}"
                    assert "maximum" in variant or key == "maxLinks", f"{name}.{key}"


def all_references(node, above=()):
    """Return all references reachable from `node`."""
    for reference in set(references(node)) - set(above):
        yield reference
        inner = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
        yield from all_references(inner, (*above, reference))


def test_examples_validate():
    failures = Failures()
    for (_, _, operation), name in zip(OPERATIONS, NAMES, strict=True):
        for content in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media in content.get("content", {}).values():
                examples = [media["example"]] if "example" in media else []
                examples += [example["value"] for example in media.get("examples", {}).values()]
                for example in examples:
                    with failures.of(name):
                        jsonschema.validate(example, resolved(media["schema"]))
    failures.report()


def test_every_operation_documents_its_errors():
    failures = Failures()
    for (_, path, operation), name in zip(OPERATIONS, NAMES, strict=True):
        if path.startswith("/v1/"):
            with failures.of(name):
                statuses = set(operation["responses"])
                assert {"429", "500", "503"} <= statuses
                if operation.get("security") != []:
                    assert {"401", "403"} <= statuses
                    assert ("requestBody" in operation) == ({"408", "413", "415"} <= statuses)
    failures.report()


def test_success_is_200_with_a_body_everywhere_but_in_scim():
    for method, path, operation in OPERATIONS:
        if "/scim/v2/" in path:
            continue
        good = [status for status in operation["responses"] if status.startswith("2")]
        assert good == ["200"], (method, path)
        kinds = set(operation["responses"]["200"]["content"])
        special = {
            "/v1/oauth/callback/{connector}": {"text/html"},
            "/v1/files/{document_id}/{kind}": {"application/octet-stream"},
            "/v1/files/{file_id}/content": {"application/octet-stream"},
            "/v1/documents/{document_id}/pages/{page}": {"image/png", "application/octet-stream"},
            "/metrics": {"text/plain"},
            "/v1/push/{push_id}": {"text/plain"},
        }
        assert kinds == special.get(path, {"application/json"})


def test_the_page_needs_no_foreign_host(anonymous):
    for path in ("/docs", "/"):
        answer = anonymous.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert not re.findall(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", answer.text)
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "connect-src 'self'" in answer.headers["content-security-policy"]
