"""Whatever fits the description is answered as described: no server error, no undocumented status or shape."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import HANDLERS
from api.openapi.document import document

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

EXAMPLES = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)

schema = schemathesis.openapi.from_dict(document(HANDLERS))
OPERATIONS = [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_operation(operation, base, org):
    headers = {"Authorization": f"Bearer {org.api_key}"}

    def ask(case):
        checks = [check for check in CHECKS if check is not not_a_server_error or may_not_be_unavailable(case)]
        case.call_and_validate(base_url=base, headers=headers, checks=checks)

    with_all_cases(schema, operation, ask, EXAMPLES)


def with_all_cases(described, operation, ask, examples):
    """Call `ask` with the cases that `schema.parametrize` makes, made when the test runs: for all operations that takes
    half a minute of each collection of the tests."""
    build_operation_test(
        config=described.config,
        operation=operation,
        test_func=ask,
        given_kwargs={},
        feedback=FeedbackSources(constants_value_source=make_constants_value_source(described)),
        explicit_settings=examples,
    )()


def may_not_be_unavailable(case):
    """`/ready` says so of itself, here because no dispatcher takes what other tests have ingested."""
    return case.path != "/ready"
