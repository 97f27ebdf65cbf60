"""Every content service has one name in all lists and appears in few files."""

import pytest

from api.routes.ingest_sources import ROUTE_HANDLERS
from api.wire.connections import ConnectorName
from connectors import registry
from flows import deployments
from retrieval.namespaces import namespaces
from retrieval.settings import PROJECT_ROOT
from retrieval.sources import APP_CONFIGS, CONNECTED_SOURCES, CREDENTIAL_SOURCES, DESCRIBED_SOURCES
from tests.api.description import DOCUMENT
from tests.standins.accounts import ACCOUNTS
from ui.parts import api_schema

"""Words of CSS, SVG and PDF."""


def slug(name):
    return name.lower().replace("_", "-")


def test_every_list_of_connectors_names_the_same_ones():
    planned = deployments.read_plan()["deployments"]
    expected, connected = set(APP_CONFIGS), set(CONNECTED_SOURCES)
    assert set(registry.load_connector_infos()) == expected
    assert set(registry.CONNECTOR_FACTORIES) == set(registry.load_source_infos()) == connected
    assert set(ACCOUNTS) == expected
    assert {entry.value for entry in ConnectorName} == connected
    assert set(namespaces.CONNECTOR_CONFIGS) == set(APP_CONFIGS.values())
    assert {f"ingest-{slug(name)}" for name in CONNECTED_SOURCES} <= {entry["name"] for entry in planned}
    assert connected <= set(deployments.FLOW_NAMES)
    assert set(dict(api_schema.read_services(DOCUMENT))) == expected


def test_the_readme_counts_the_content_services():
    count = len(APP_CONFIGS) + len(DESCRIBED_SOURCES)
    assert f"| connects to | {count} content services," in (PROJECT_ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", APP_CONFIGS)
def test_each_has_an_operation_and_a_page(name):
    assert f"/v1/ingest/{slug(name)}" in {path for handler in ROUTE_HANDLERS for path in handler.paths}
    title = registry.load_connector_infos()[name].title
    service = registry.make_authorizer(
        name, {"clientId": "c", "clientSecret": "s"}, registry.settings.load_settings()
    ).service
    assert service.name == title
    page = (PROJECT_ROOT / "docs" / "connectors" / f"{slug(name)}.md").read_text()
    assert page.startswith(f"# How do I ingest {title}?\n")


@pytest.mark.parametrize("name", CREDENTIAL_SOURCES)
def test_each_source_without_an_app_has_a_page(name):
    assert "/v1/ingest/source" in {path for handler in ROUTE_HANDLERS for path in handler.paths}
    page = (PROJECT_ROOT / "docs" / "connectors" / f"{slug(name)}.md").read_text()
    assert page.startswith(f"# How do I ingest {registry.load_source_infos()[name].title}?\n")
