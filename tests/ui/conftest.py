"""The admin app, run in process against the real API on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from local.roles import PROJECT_ROOT
from retrieval.ports import Scope
from tests.api.conftest import api_db, api_settings, base, org, organization, ring  # noqa: F401
from tests.api.support import Organization
from tests.library import Library
from ui import session

HOSTILE = '<script>alert(1)</script> [x](javascript:alert(1)) ![y](http://203.0.113.9/p.png) =HYPERLINK("x")'
SECONDS = 60


@pytest.fixture(scope="session")
def api_database(fresh_database) -> str:
    """A database for these tests alone."""
    return str(fresh_database("ui"))


@pytest.fixture(autouse=True, scope="session")
def _without_components() -> Iterator[None]:
    """Streamlit reads the metadata of all installed packages at each run of an app: half of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)
        yield


@pytest.fixture(autouse=True)
def _without_cookies(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest has no cookies."""
    monkeypatch.setattr(session, "cookie_id", lambda: None)


@pytest.fixture
def app(base: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:  # noqa: F811
    """Return a function that opens a page by URL and signs in."""
    monkeypatch.setenv("RETRIEVAL_API_URL", base)

    def open_page(api_key: str, page: str = "overview", **parameters: str) -> AppTest:
        app_test = AppTest.from_file(str(PROJECT_ROOT / "ui" / "app.py"), default_timeout=SECONDS)
        for name, value in parameters.items():
            app_test.query_params[name] = value
        if page != "overview":
            app_test.switch_page(f"views/{page}.py")
            for name, value in parameters.items():
                app_test.query_params[name] = value
        sign_in(app_test, api_key)
        return app_test

    return open_page


@pytest.fixture
def space(org: Organization) -> str:  # noqa: F811
    """A namespace with content in every state, some hostile."""
    namespace = org.namespace()
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    library.put(["The harbour seal dives for thirty minutes.", HOSTILE], name=HOSTILE, metadata={"topic": "seals"})
    library.put(["Owls hunt mice at night."], name="owls")
    library.put(name="broken.pdf", status="FAILED", source="LOCAL_FILE", document_type="FILE", visible=False)
    org.db.rows("update documents set error = 'The file is damaged.' where name = 'broken.pdf' and error is null")
    org.text(namespace, "waits for a worker", name="waiting")
    return namespace


def sign_in(app: AppTest, api_key: str, tenant: str = "") -> None:
    app.session_state["who"] = session.find_person(api_key, tenant)
    app.run()


def visible_content(app: AppTest) -> str:
    """Return all visible text, tables included."""
    parts: list[Any] = [*app.markdown, *app.caption, *app.error, *app.warning, *app.info, *app.success, *app.title]
    parts += [*app.text, *app.header, *app.subheader, *app.metric]
    texts = [str(getattr(part, "value", "")) + str(getattr(part, "label", "")) for part in parts]
    return "\n".join([*texts, *(str(table.value.to_dict()) for table in app.dataframe)])
