"""The OpenAPI document is good enough to generate a client from, and its page needs no foreign host."""

from __future__ import annotations

import re

import jsonschema
import pytest

from api.app import HANDLERS
from api.openapi import document
from retrieval.errors import ErrorCode

DOCUMENT = document(HANDLERS)
OPERATIONS = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]


def resolved(schema):
    """The schema with the components that it refers to."""
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


def test_it_is_served_as_it_is_made(anonymous):
    answer = anonymous.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["paths"].keys() == DOCUMENT["paths"].keys()


def test_every_reference_leads_somewhere():
    for reference in set(references(DOCUMENT)):
        place = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    for mapping in re.findall(r"'mapping': \{[^}]*\}", str(DOCUMENT)):
        for reference in re.findall(r"#/components/schemas/(\w+)", mapping):
            assert reference in DOCUMENT["components"]["schemas"]


def test_operation_ids_are_unique_and_everything_is_described():
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z][A-Za-z]+", one) for one in ids)
    assert all(operation["summary"] for _, _, operation in OPERATIONS)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert re.fullmatch("[A-Z][A-Za-z0-9]+", name)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema.get("description") or "enum" in schema, name


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_examples_validate(method, path, operation):
    contents = [operation.get("requestBody", {}), *operation["responses"].values()]
    for content in contents:
        for media in content.get("content", {}).values():
            examples = [media["example"]] if "example" in media else []
            examples += [one["value"] for one in media.get("examples", {}).values()]
            for example in examples:
                jsonschema.validate(example, resolved(media["schema"]))


@pytest.mark.decision("D04")
@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_every_operation_documents_its_errors(method, path, operation):
    if not path.startswith("/v1/"):
        return
    if operation.get("security") == []:
        assert {"429", "500", "503"} <= set(operation["responses"])
        return
    statuses = set(operation["responses"])
    assert {"200", "401", "403", "429", "500", "503"} <= statuses
    assert ("requestBody" in operation) == ({"408", "413", "415"} <= statuses)


@pytest.mark.decision("D03")
def test_success_is_200_with_a_body_everywhere():
    for method, path, operation in OPERATIONS:
        good = [status for status in operation["responses"] if status.startswith("2")]
        assert good == ["200"], (method, path)
        kinds = set(operation["responses"]["200"]["content"])
        special = {"/v1/oauth/callback/{connector}": {"text/html"}, "/v1/files/{document_id}/{kind}": {"*/*"}}
        assert kinds == special.get(path, {"application/json"})


@pytest.mark.decision("D26")
def test_bounds_and_enums_are_told():
    schemas = DOCUMENT["components"]["schemas"]
    size = schemas["ChunkConfig"]["properties"]["chunkSize"]
    assert (size["minimum"], size["maximum"]) == (1, 8191)
    top = schemas["SearchRequest"]["properties"]["topK"]
    assert {"minimum": 1, "maximum": 100}.items() <= next(one for one in top["anyOf"] if "minimum" in one).items()
    assert set(schemas["ErrorCode"]["enum"]) == {code.value for code in ErrorCode}


def test_the_page_needs_no_foreign_host(anonymous):
    for path in ("/docs", "/"):
        answer = anonymous.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert not re.findall(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", answer.text)
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "connect-src 'self'" in answer.headers["content-security-policy"]
