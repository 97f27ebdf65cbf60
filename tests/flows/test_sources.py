"""`flows/sources.py` has a flow for each source of the registry."""

import importlib
import re
import typing

import msgspec
import pytest

from api.wire.connectors import CONNECTOR_BODIES, SOURCE_BODY
from api.wire.ingest import IngestSitemap, IngestText, IngestUrls, IngestWebsite
from flows import deployments, sources
from retrieval.sources import FETCHED_SOURCES


def test_the_entrypoint_of_every_deployment_is_the_flow_of_its_name():
    entrypoints = {entry["name"]: entry["entrypoint"] for entry in deployments.read_plan()["deployments"]}
    assert set(entrypoints) >= set(deployments.FLOW_NAMES.values())
    assert set(deployments.FLOW_NAMES) == {"TEXT", "LOCAL_FILE", "REEMBED", "DRY_RUN", *FETCHED_SOURCES}
    for name, entrypoint in entrypoints.items():
        module, _, function = entrypoint.rpartition(".")
        assert getattr(importlib.import_module(module), function).name == name


def test_prefect_yaml_has_a_deployment_for_every_flow():
    names = [entry["name"] for entry in deployments.read_plan()["deployments"]]
    assert sorted(names) == sorted({*deployments.FLOW_NAMES.values(), "evaluate", "sync-connection"})


WEB_BODIES = {"URLS_LIST": IngestUrls, "SITEMAP": IngestSitemap, "WEBSITE": IngestWebsite, "TEXT": IngestText}


def request_fields(name):
    """Fields of `ingestConfig.config` with defaults, by API name."""
    body = WEB_BODIES.get(name) or CONNECTOR_BODIES.get(name, SOURCE_BODY)
    struct = msgspec.inspect.type_info(body)
    for name_of_part in ("ingestConfig", "config"):
        (part,) = (field.type for field in struct.fields if field.encode_name == name_of_part)
        struct = part.type if isinstance(part, msgspec.inspect.Metadata) else part
    return {field.encode_name: field.default for field in struct.fields}


def flow_of(name):
    return getattr(sources, deployments.FLOW_NAMES[name].replace("-", "_"))


def sent_fields(name, parameters):
    """Fields sent by the flow with these parameters."""
    model = typing.get_type_hints(flow_of(name).fn.__wrapped__)["parameters"]
    body = model(**parameters).make_body("ns_x", name)
    return {*body["ingestConfig"]["config"], *body["ingestConfig"]} - {"source", "config"}


@pytest.mark.parametrize("name", ["TEXT", *sorted(FETCHED_SOURCES)])
def test_parameters_of_none_in_a_schedule_of_an_earlier_version_take_their_defaults(name):
    flow = flow_of(name)
    fields = flow.parameters.model_dump()["properties"]
    parameters = flow.validate_parameters({"namespace": "ns_x"} | dict.fromkeys(fields.keys() - {"namespace"}))
    defaults = {key: field["default"] for key, field in fields.items()}
    assert parameters == {"batch_id": None, "attempt": 1} | defaults | {"namespace": "ns_x"}


EXAMPLES = {"string": "x", "integer": 7, "array": ["x"], "object": {"x": 1}, "boolean": True}


def example_of(schema):
    (kind,) = {part.get("type", "string") for part in schema.get("anyOf", [schema])} - {"null"}
    item = schema.get("anyOf", [schema])[0].get("items", {})
    return [{"id": "x"}] if kind == "array" and item.get("type") == "object" else EXAMPLES[kind]


@pytest.mark.parametrize("name", ["TEXT", *sorted(FETCHED_SOURCES)])
def test_a_deployment_takes_every_field_of_the_request_with_a_description(name):
    schema = flow_of(name).parameters.model_dump()["properties"]
    assert all(len(field.get("description", "")) > 15 for field in schema.values())
    assert next(iter(schema)) == "namespace"
    assert not {"batch_id", "attempt"} & schema.keys()
    fields = request_fields(name)
    fields_sent = sent_fields(name, {parameter: example_of(field) for parameter, field in schema.items()})
    assert fields_sent == set(fields)
    for parameter, field in schema.items():
        default = fields.get(re.sub("_(.)", lambda match: match[1].upper(), parameter), msgspec.NODEFAULT)
        if field["default"] not in (None, "", []):
            assert field["default"] == default, parameter
