"""Examples and generated requests of the OpenAPI description get documented answers."""

from __future__ import annotations

import copy

import jsonschema
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api.description import DOCUMENT
from tests.api.every_operation.test_isolation import ROUTES, case_name
from tests.api.support import Failures, Organization, client_of

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
]
EXAMPLES = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.explicit, Phase.generate],
)

schema = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))
OPERATIONS = [result.ok() for result in schema.get_all_operations()]


@pytest.fixture(scope="module")
def sample_ids(base, api_db, ring):
    owner = organizations.create_organization(api_db, "any", requests_per_minute=10_000_000, namespace_limit=100_000)
    api_key = api_keys.create_key(api_db, ring, owner.id, "any").api_key
    with client_of(base, api_key) as client:
        org = Organization(owner.id, client, api_key, api_db, ring, base)
        space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
        answer = org.text(space, name="known")["data"]
        yield api_key, space, answer["ingestJobRunId"], answer["documents"][0]["id"]


@pytest.fixture(scope="module")
def session():
    # A new session per request takes longer than the answer.
    with requests.Session() as http:
        http.trust_env = False
        yield http


# Schemathesis allows 10 s; on a busy machine the first search loads its model for longer.
TIMEOUT_SECONDS = 120


def test_examples_get_documented_answers(worlds):
    world, failures = worlds.fill(worlds.organization(), "alice"), Failures()
    for route in sorted(ROUTES, key=lambda route: route.method == "DELETE"):
        with failures.of(case_name(route)):
            answer = world.send(route)
            assert str(answer.status_code) in route.operation["responses"], answer.text
            content = route.operation["responses"][str(answer.status_code)].get("content", {})
            kind = answer.headers.get("content-type", "").partition(";")[0]
            if kind == "application/json":
                described = {**content[kind]["schema"], "components": DOCUMENT["components"]}
                jsonschema.validate(answer.json(), described)
    failures.report()


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_operation(operation, base, sample_ids, session):
    # Every second request uses real ids to get past the look-up.
    api_key, space, run, document_id = sample_ids

    @EXAMPLES
    @given(case=operation.as_strategy())
    def ask(case):
        if len(str(case.body)) % 2:
            put_real_ids(case, space, run, document_id)
        wait_no_longer(case)
        headers = {"Authorization": f"Bearer {api_key}"}
        checks = checks_of(case)
        case.call_and_validate(base_url=base, session=session, headers=headers, checks=checks, timeout=TIMEOUT_SECONDS)

    ask()


def checks_of(case):
    # `/ready` may answer 503: no dispatcher takes the ingestions of other tests.
    return [check for check in CHECKS if check is not not_a_server_error or case.path != "/ready"]


def wait_no_longer(case):
    # An unchanged run is answered after `waitSeconds`, up to 30 s.
    if isinstance(case.query, dict) and str(case.query.get("waitSeconds")) in map(str, range(2, 31)):
        case.query["waitSeconds"] = 1


def put_real_ids(case, space, run, document_id):
    real = {"namespaceId": space, "ingest_job_run_id": run, "document_id": document_id}
    deleting = case.method.upper() == "DELETE" and case.path.startswith("/v1/namespaces")
    real |= {} if deleting else {"namespace_id": space}
    for part in (case.path_parameters, case.query, case.body):
        if isinstance(part, dict):
            part.update({name: value for name, value in real.items() if name in part})
