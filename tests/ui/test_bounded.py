"""Pages load at most 200 rows and read only bounded lists."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval import ids
from retrieval.ports import Scope
from tests.library import Library
from ui.client import Api

MAX_PAGE_ROWS = 200
LISTS = ("/v1/namespaces", "/v1/connections", "/v1/keys", "/v1/tenants", "/v1/ingest-job-runs", "/chunks", "/history")
FILL = {
    "connections": "insert into connections (id, partition_id, name, connector, status)"
    " select 'conn_many_' || n || %(mark)s, %(partition)s, 'many', 'GOOGLE_DRIVE', 'ACTIVE'"
    " from generate_series(1, 230) n",
    "keys": "insert into api_keys (id, organization_id, name, hash, hint, scopes)"
    " select 'key_many_' || n || %(mark)s, %(org)s, 'many', sha256((n || %(mark)s)::bytea), 'abcd', '{search}'"
    " from generate_series(1, 230) n",
    "tenants": "insert into tenants (organization_id, id) select %(org)s, 't' || n from generate_series(1, 230) n",
    "documents": "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type,"
    " name, status, connection_id) select 'doc_many_' || n || %(mark)s, partition_id, job_id, id, 'GOOGLE_DRIVE',"
    " 'many' || n, 'FILE', 'many', 'FAILED', 'conn_many_1' || %(mark)s"
    " from job_runs, generate_series(1, 230) n where id = %(run)s",
    "entries": "insert into run_documents (job_run_id, document_id, position, generation, status, stage, name)"
    " select job_run_id, id, 10 + row_number() over (), 1, 'SUCCESS', 'upserted', name from documents"
    " where job_run_id = %(run)s and name = 'many'",
    "departures": "insert into departures (document_id, connection_id, job_run_id, held)"
    " select id, connection_id, job_run_id, true from documents where job_run_id = %(run)s and name = 'many'",
    "runs": "insert into job_runs (id, job_id, partition_id, source, status, finished_at)"
    " select id || '_' || n, job_id, partition_id, 'TEXT', 'COMPLETED', now()"
    " from job_runs, generate_series(1, 230) n where id = %(run)s",
}


@pytest.fixture
def full(org) -> dict[str, str]:
    """Insert more than 200 rows of each kind, and 56 namespaces."""
    namespace = org.namespace()
    for _ in range(55):
        org.namespace()
    run = org.text(namespace, "a text", name="one")["data"]["ingestJobRunId"]
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    mark = ids.new_id("_")
    values = {"namespace": namespace, "run": run, "org": org.id, "partition": library.partition, "mark": mark}
    for statement in FILL.values():
        org.db.rows(statement, values)
    document = library.put([f"Owls hunt mice, chapter {number}." for number in range(230)], name="book")
    return {"namespace": namespace, "run": run, "document": document, "connection": f"conn_many_1{mark}"}


PAGE_ADDRESSES: dict[str, tuple[str, dict[str, str]]] = {
    "overview": ("overview", {}),
    "tenants": ("keys", {"tab": "Tenants"}),
    "namespaces": ("namespaces", {}),
    "one namespace": ("namespaces", {"open": "yes"}),
    "runs": ("runs", {}),
    "one run": ("runs", {"run": "{run}"}),
    "documents": ("documents", {}),
    "one document": ("documents", {"document": "{document}", "chunk": "100"}),
    "reasons": ("search", {"q": "owls hunt", "columns": "semantic,hybrid,keyword", "tab": "Ranks, scores and times"}),
    "versions": ("documents", {"document": "{document}", "tab": "Versions"}),
    "search": ("search", {"q": "owls hunt", "columns": "semantic,hybrid,keyword", "top": "100"}),
    "connections": ("connections", {}),
    "removals": ("connections", {"removals": "{connection}"}),
    "keys": ("keys", {"tab": "API keys"}),
}

# Fewer rows would mean missing content.
LEAST = {"one run": 100, "documents": 50, "one document": 50, "removals": 100, "connections": 50, "keys": 100}


def rows_of(answer: Any) -> set[str]:
    """Return list items in a response by id or content."""
    if isinstance(answer, list):
        items = {str(entry.get("id") or entry.get("chunk", entry)) for entry in answer if isinstance(entry, dict)}
        return items.union(*(rows_of(entry) for entry in answer))
    if isinstance(answer, dict):
        return set().union(*(rows_of(value) for value in answer.values()))
    return set()


def test_no_page_loads_more_than_200_rows(app, org, full, monkeypatch):
    view, loaded, unbounded = app(org.api_key, "keys", namespace=full["namespace"]), set(), []
    real = Api._send

    def watch(api: Api, method: str, path: str, **options: Any) -> Any:
        answer = real(api, method, path, **options)
        loaded.update(rows_of(answer.data))
        if method == "GET" and path.endswith(LISTS) and "pageSize" not in (options.get("params") or {}):
            unbounded.append(path)
        return answer

    monkeypatch.setattr(Api, "_send", watch)
    for name, (page, parameters) in PAGE_ADDRESSES.items():
        view.switch_page(f"views/{page}.py")
        view.query_params.clear()
        for key, value in {**parameters, "namespace": "{namespace}"}.items():
            view.query_params[key] = value.format(**full)
        loaded.clear()
        view.run()
        assert not view.exception, name
        assert not view.error, (name, [error.value for error in view.error])
        assert LEAST.get(name, 0) <= len(loaded) <= MAX_PAGE_ROWS, (name, len(loaded))
        assert all(len(table.value) <= 100 for table in view.dataframe), name
    assert not unbounded
