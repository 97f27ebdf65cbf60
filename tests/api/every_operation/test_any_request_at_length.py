"""The same as the short run, for minutes: each bound, type and missing part of each description, one by one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source

from tests.api.every_operation import test_any_request as short
from tests.api.every_operation.test_any_request import OF_ANY, OPERATIONS, SECONDS, checks_of, schema, wait_no_longer

EXAMPLES = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)

session = short.session


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_operation(operation, base, organization, session):
    api_key = organization(requests_per_minute=10_000_000).api_key

    def ask(case):
        wait_no_longer(case)
        headers = {"Authorization": f"Bearer {api_key}"}
        case.call_and_validate(
            base_url=base, session=session, headers=headers, checks=checks_of(case, OF_ANY), timeout=SECONDS
        )

    # As `schema.parametrize` makes them, made when the test runs: for all operations at once that takes half a minute.
    build_operation_test(
        config=schema.config,
        operation=operation,
        test_func=ask,
        given_kwargs={},
        feedback=FeedbackSources(constants_value_source=make_constants_value_source(schema)),
        explicit_settings=EXAMPLES,
    )()
