"""Pages repeat no request within seconds, and show a person's own changes and rights."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.ui.conftest import sign_in, visible_content


@pytest.fixture
def requests() -> Iterator[list[str]]:
    """The requests that the API answers, by its access log."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("uvicorn.access")
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield lines
    logger.removeHandler(handler)


@pytest.mark.parametrize(("page", "limits"), [("documents", (10, 2)), ("search", (5, 1)), ("connections", (5, 2))])
def test_a_page_sends_few_requests_and_fewer_when_it_runs_again(app, org, space, requests, page, limits):
    app(org.api_key, "keys")  # the first page of a process sets up logging
    logging.getLogger("uvicorn.access").setLevel("INFO")
    requests.clear()
    view = app(org.api_key, page, namespace=space)
    assert not view.exception
    assert 0 < len(requests) <= limits[0], requests
    requests.clear()
    view.run()
    assert len(requests) <= limits[1], requests


def test_a_person_sees_a_change_at_once(app, org):
    org.namespace(name="Before")
    view = app(org.api_key, "namespaces", open="yes", namespace=org.namespace(name="Reports"))
    assert "Reports" in visible_content(view)
    field = next(field for field in view.text_input if field.label == "Name" and field.value == "Reports")
    field.set_value("Papers")
    next(button for button in view.button if button.label == "Save").click().run()
    assert not view.exception
    assert "Papers" in visible_content(view)


def test_no_answer_serves_another_key(app, org, space):
    other = org.key(scopes=["namespaces:read", "documents:read", "ingest:read"], namespace=org.namespace(name="Own"))
    view = app(org.api_key, "documents", namespace=space)
    assert "owls" in visible_content(view)
    sign_in(view, other.headers["Authorization"].removeprefix("Bearer "))
    assert not view.exception
    assert "owls" not in visible_content(view)
    assert "does not exist, or is not yours to see" in visible_content(view), "whatever another key was told of it"
