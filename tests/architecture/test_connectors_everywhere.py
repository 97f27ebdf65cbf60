"""A content service is known under one name wherever its name stands: what docs/adding-a-connector.md lists."""

import ast
from pathlib import Path

import pytest

from api.routes.connector_ingestion import HANDLERS
from api.wire.connections import ConnectorName
from connectors import registry
from flows import prefect_client
from flows.warm_worker import allowed_flows
from retrieval.namespaces import namespaces
from retrieval.sources import APPS
from tests.connectors.sources.test_connectors import ACCOUNTS

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = (PROJECT / "docs" / "adding-a-connector.md").read_text()


def slug(name):
    return name.lower().replace("_", "-")


def tables_of(path):
    """The keys of each dictionary, and the elements of each tuple, that a module assigns on top."""
    found = {}
    for node in ast.parse((PROJECT / path).read_text()).body:
        target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
        value = getattr(node, "value", None)
        parts = getattr(value, "keys", None) or getattr(value, "elts", None)
        if isinstance(target, ast.Name) and parts:
            found[target.id] = {part.value for part in parts if isinstance(part, ast.Constant)}
    return found


def test_every_list_of_connectors_names_the_same_ones():
    deployments = allowed_flows.plan()["deployments"]
    wanted = set(APPS)
    assert set(registry.CONNECTORS) == set(registry.infos()) == wanted
    assert set(ACCOUNTS) == wanted | {"MEMORY"}
    assert {one.value for one in ConnectorName} == wanted
    assert set(namespaces.CONNECTORS) == set(APPS.values())
    assert {f"ingest-{slug(name)}" for name in APPS} <= {one["name"] for one in deployments}
    assert wanted <= set(prefect_client.FLOWS)
    assert wanted <= tables_of("ui/parts/labels.py")["SOURCES"]


@pytest.mark.parametrize("name", APPS)
def test_each_has_an_operation_and_a_section(name):
    assert f"/v1/ingest/{slug(name)}" in {path for handler in HANDLERS for path in handler.paths}
    headings = [
        line for line in (PROJECT / "docs" / "connectors.md").read_text().splitlines() if line.startswith("## ")
    ]
    title = registry.authorizer(name, {"clientId": "c", "clientSecret": "s"}, registry.settings.load()).service.name
    assert f"## {title}" in headings


def test_the_guide_shows_the_connector_that_is_tested():
    """Its code is that of the smallest one, word for word."""
    shown = GUIDE.split("```python\n")[1].split("```")[0]
    assert shown in (PROJECT / "tests" / "standins" / "memory.py").read_text()
