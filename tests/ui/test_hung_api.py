"""A hanging API leads to one wait and a message, at start or within a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Any

import httpx
import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.testing.v1 import AppTest

from local.roles import PROJECT_ROOT
from retrieval.accounts import api_keys
from tests.api.conftest import base, org  # noqa: F401
from tests.ui.conftest import SECONDS, visible_content
from ui import client, session
from ui.client import Api
from ui.parts import api_schema, waiting

# Allows for a busy machine.
WAIT = 60.0
VIEWS = sorted(view_file.stem for view_file in Path(client.__file__).with_name("views").glob("[a-z]*.py"))


class Hanging(httpx.BaseTransport):
    """Transport that passes some requests and lets the others time out after the notice."""

    def __init__(self) -> None:
        self.told = Event()
        self._lock, self._real = Lock(), httpx.HTTPTransport()
        self.hang_after(0)

    def hang_after(self, answers: int) -> None:
        self.answers, self.asked, self.waits = answers, 0, 0
        self.timed_out = False
        self.told.clear()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.asked += 1
            answered = self.asked <= self.answers
        if answered:
            return self._real.handle_request(request)
        self.told.wait(WAIT)
        self.timed_out = True
        raise httpx.ReadTimeout("No answer.", request=request)

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """Return the transport and count repeated waits after a timeout."""
    transport, notice, real = Hanging(), waiting.show_notice, Api._run_in_thread

    @contextmanager
    def watch_notice() -> Iterator[None]:
        with notice():
            if is_page():
                transport.told.set()
            yield

    def asks(api_client: Api, ask: Any) -> Any:
        transport.waits += is_page() and transport.timed_out and not api_client.silence.has_timed_out
        return real(api_client, ask)

    monkeypatch.setattr(waiting, "show_notice", watch_notice)
    monkeypatch.setattr(Api, "_run_in_thread", asks)
    monkeypatch.setattr(client, "SLOW_NOTICE_SECONDS", 0.02)
    with httpx.Client(transport=transport, timeout=WAIT) as http:
        monkeypatch.setattr(client, "_http_client", lambda: http)
        yield transport


def is_page() -> bool:
    """Return whether this thread builds a page."""
    return get_script_run_ctx(suppress_warning=True) is not None


def opened(org: Any, base: str, page: str, namespace: str) -> AppTest:  # noqa: F811
    """Create a signed-in page without running it."""
    scopes = frozenset(str(scope) for scope in api_keys.KEY_SCOPES)
    view = AppTest.from_file(str(PROJECT_ROOT / "ui" / "app.py"), default_timeout=SECONDS)
    view.session_state["who"] = session.Person(Api(base, org.api_key, "", waiting.show_notice), "k", scopes, None, None)
    view.query_params["namespace"] = namespace
    return view


@pytest.mark.slow
@pytest.mark.parametrize("page", VIEWS)
def test_a_page_says_that_the_api_hangs_and_waits_once(org, base, space, api, page, monkeypatch) -> None:  # noqa: F811
    monkeypatch.setenv("RETRIEVAL_API_URL", base)
    view = opened(org, base, page, space)
    api.hang_after(0)
    answers = 0
    while True:
        api_schema.api_document.clear()
        view.switch_page(f"views/{page}.py").run()
        assert not view.exception, answers
        if api.asked <= answers:
            break
        assert api.told.is_set(), answers
        assert api.waits == 0, answers
        assert "The API did not answer in time" in visible_content(view), answers
        answers += 1
        api.hang_after(answers)
    assert answers > 0, "a page that asks nothing shows nothing"
    assert "The API did not answer in time" not in visible_content(view), "once it answers again, the page is there"


def test_a_live_part_says_it_too_and_recovers(org, base, space, api, monkeypatch) -> None:  # noqa: F811
    # The runs table refreshes by a timer; errors appear as messages, not tracebacks.
    monkeypatch.setenv("RETRIEVAL_API_URL", base)
    view = opened(org, base, "runs", space)
    api.hang_after(1)
    view.switch_page("views/runs.py").run()
    assert not view.exception
    assert "TIMEOUT" in visible_content(view)
    api.hang_after(9)
    view.run()
    assert "QUEUED" in visible_content(view)
