"""`retrieval apply` against the API: namespaces and connections that a file declares."""

from __future__ import annotations

import argparse
import re

import pytest

from local import LocalError, client
from retrieval.settings import PROJECT_ROOT, Settings

DECLARED = """
namespaces:
  - name: Declared manuals
    fileStorageConfig: {type: LOCAL}
    vectorStorageConfig: {provider: PGVECTOR}
    embeddingModelConfig: {provider: LOCAL, model: all-MiniLM-L6-v2}
    webScraperConfig: {provider: FIRECRAWL, apiKey: "${SCRAPER_KEY}"}
    connections:
      - name: Handbooks
        connector: OBJECTS
        syncIntervalMinutes: 60
        config:
          url: "s3://handbooks/2026"
          region: eu-west-1
          credentials: {accessKeyId: AKIA, secretAccessKey: "${BUCKET_SECRET}"}
"""


@pytest.fixture
def apply(base, org, tmp_path, capsys, monkeypatch):
    """Return a function that applies a text; returns the words of each printed line."""
    monkeypatch.setenv("SCRAPER_KEY", "scraper-secret-1234")
    monkeypatch.setenv("BUCKET_SECRET", "bucket-secret-5678")

    def run(text):
        (tmp_path / "namespaces.yaml").write_text(text)
        options = argparse.Namespace(
            command="apply",
            file="namespaces.yaml",
            namespace=None,
            url=base,
            key=org.api_key,
            tenant=None,
            json=False,
            cwd=tmp_path,
        )
        assert client.run(options, Settings(home=tmp_path)) == 0
        printed = capsys.readouterr().out
        assert "secret-" not in printed
        return [line.split("  ")[0] for line in printed.splitlines()]

    return run


def declared_objects(org):
    spaces = org.client.get("/v1/namespaces", params={"name": "Declared"}).json()["data"]["namespaces"]
    [space] = [space for space in spaces if space["name"] == "Declared manuals"]
    params = {"namespaceId": space["id"]}
    return space, org.client.get("/v1/connections", params=params).json()["data"]["connections"]


def test_a_file_is_applied_twice_and_then_changed(apply, org):
    assert apply(DECLARED) == ["created", "created"]
    space, [connection] = declared_objects(org)
    assert (space["webScraperConfig"]["provider"], connection["syncIntervalMinutes"]) == ("FIRECRAWL", 60)
    assert apply(DECLARED) == ["secrets sent", "secrets sent"]
    changed = DECLARED.replace("syncIntervalMinutes: 60", "syncIntervalMinutes: 30")
    without_scraper = changed.replace('{provider: FIRECRAWL, apiKey: "${SCRAPER_KEY}"}', "{provider: BUILTIN}")
    assert apply(without_scraper) == ["updated", "updated"]
    assert apply(without_scraper) == ["unchanged", "secrets sent"]
    changed_space, [changed_connection] = declared_objects(org)
    assert changed_space["id"] == space["id"]
    assert changed_connection["id"] == connection["id"]
    assert (changed_space["webScraperConfig"], changed_connection["syncIntervalMinutes"]) == (
        {"provider": "BUILTIN"},
        30,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("namespaces: [", "is no YAML, line 1"),
        ("- name: x", "must hold `namespaces`, a list"),
        ("namespaces: []\nconnections: []", "and nothing else"),
        ("namespaces: [{fileStorageConfig: {type: LOCAL}}]", "each namespace needs a `name`"),
        (DECLARED + "  - {name: Declared manuals}", "several namespaces are called Declared manuals"),
        (
            DECLARED.replace("connector:", "source:"),
            "each connection of Declared manuals needs a `name` and a `connector`",
        ),
        (DECLARED.replace("syncInterval", "interval"), "connections have no intervalMinutes; their fields are"),
        (DECLARED.replace("SCRAPER_KEY", "NO_SUCH_KEY"), "names variables that are not set: NO_SUCH_KEY"),
    ],
)
def test_a_wrong_file_is_refused_before_the_first_request(apply, org, text, problem):
    with pytest.raises(LocalError, match=problem):
        apply(text)
    assert org.client.get("/v1/namespaces", params={"name": "Declared"}).json()["data"]["namespaces"] == []


def test_the_file_of_the_production_page_is_applied(apply, monkeypatch):
    page = (PROJECT_ROOT / "docs" / "guides" / "production.md").read_text()
    declared = page.partition("```yaml\n")[2].partition("```")[0]
    for name in re.findall(r"\$\{(\w+)\}", declared):
        monkeypatch.setenv(name, "secret-of-the-page")
    assert apply(declared) == ["created", "created"]
