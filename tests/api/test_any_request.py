"""Whatever fits the description is answered as described: no server error, no undocumented status or shape."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import HANDLERS
from api.openapi import document

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

schema = schemathesis.openapi.from_dict(document(HANDLERS))


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_every_operation(case, base, org):
    headers = {"Authorization": f"Bearer {org.api_key}"}
    checks = [check for check in CHECKS if check is not not_a_server_error or may_not_be_unavailable(case)]
    case.call_and_validate(base_url=base, headers=headers, checks=checks)


def may_not_be_unavailable(case):
    """`/ready` says so of itself, here because no dispatcher takes what other tests have ingested."""
    return case.path != "/ready"
