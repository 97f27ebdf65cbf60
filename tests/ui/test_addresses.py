"""Page state is stored in the URL for links, Back and namespace changes."""

from __future__ import annotations

import pytest

from tests.ui.conftest import visible_content


def at(view, **parameters: str):
    """The same page at another address, as after Back."""
    for name in list(view.query_params):
        del view.query_params[name]
    for name, value in parameters.items():
        view.query_params[name] = value
    return view.run()


def open_namespace(view, namespace: str) -> None:
    """Choose a namespace."""
    view.session_state["page_namespace"] = True
    view.run()
    view.button(key=f"page_namespace_{namespace}").click().run()


def address(view) -> dict[str, str]:
    parameters = {name: view.query_params[name] for name in view.query_params}
    return {name: value[0] if isinstance(value, list) else value for name, value in parameters.items()}


@pytest.mark.parametrize(
    ("field", "initial_value", "new_value"),
    [
        (("runs", "text_input", "runs_q", "q"), "", "nowhere"),
        (("runs", "selectbox", "runs_source", "source"), "all", "TEXT"),
        (("usage", "selectbox", "usage_period", "period"), "This month", "Last 7 days"),
        (("audit", "selectbox", "audit_type", "type"), "", "key"),
        (("documents", "text_input", "find_q", "q"), "", "owls"),
        (("search", "number_input", "options_top", "top"), 10, 5),
        (("search", "text_input", "lab_q", "q"), "", "owls"),
    ],
)
def test_back_shows_what_was_there_before(app, org, space, field, initial_value, new_value):
    page, kind, key, name = field
    view = app(org.api_key, page, namespace=space)
    first = address(view)
    getattr(view, kind)(key=key).set_value(new_value).run()
    assert address(view) == {**first, name: str(new_value)}
    at(view, **first)
    assert not view.exception
    assert getattr(view, kind)(key=key).value == initial_value
    assert address(view) == first


@pytest.mark.parametrize(
    ("page", "parameters"),
    [
        ("documents", {"cursor": "of-the-other-namespace", "q": "owls"}),
        ("documents", {"document": "doc_06h0jc5ybfsha47mkst60rka5fmx86mz7s8g", "chunk": "3"}),
        ("runs", {"run": "ijr_06h0jc5ybfsha47mkst60rka5fmx86mz7s8g"}),
        ("evaluations", {"evaluation": "eval_06h0jc5ybfsha47mkst60rka5fmx86mz7s8g", "tab": "Results"}),
    ],
)
def test_another_namespace_is_shown_from_its_beginning(app, org, space, page, parameters):
    other_namespace = org.namespace()
    view = app(org.api_key, page, namespace=space, **parameters)
    open_namespace(view, other_namespace)
    assert not view.exception
    assert not view.error, visible_content(view)
    assert "does not exist" not in visible_content(view)
    assert "no such document" not in visible_content(view)
    kept_parameters = {name: value for name, value in parameters.items() if name == "q"}
    assert address(view) == {"namespace": other_namespace, **kept_parameters}


def test_any_namespace_is_found_by_a_part_of_its_name(app, org, space):
    for number in range(51):
        org.namespace(name=f"Customer {number:02}")
    view = app(org.api_key, "documents")
    assert address(view)["namespace"] == space, "the one with documents"
    view.session_state["page_namespace"] = True
    view.run()
    assert "50 of 52" in visible_content(view)
    view.text_input(key="page_namespace_name").set_value("tomer 00").run()
    (offered,) = [button for button in view.button if str(button.key).startswith("page_namespace_ns_")]
    assert offered.label == "Customer 00 · :gray[0 documents]"
    offered.click().run()
    view.switch_page("views/runs.py")
    at(view)
    assert f"page_namespace_{address(view)['namespace']}" == offered.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "parameters"),
    [
        ("documents", {"cursor": "no such"}),
        ("documents", {"document": "\n"}),
        ("documents", {"from": "99999-01-01", "site": "\x00"}),
        ("runs", {"run": "a/../b?c=#\n"}),
        ("runs", {"cursor": "no such"}),
        ("runs", {"status": "²", "source": "\n"}),
        ("evaluations", {"evaluation": "x\n/y"}),
        ("evaluations", {"cursor": "no such"}),
        ("webhooks", {"webhook": "x\n/y"}),
        ("webhooks", {"cursor": "no such"}),
        ("namespaces", {"open": "yes", "namespace": "x\n/y"}),
        ("namespaces", {"cursor": "no such"}),
        ("add_content", {"runs": "x\n", "of": "²"}),
        ("audit", {"since": "never"}),
        ("audit", {"cursor": "no such"}),
        ("connections", {"removals": "x\n", "cursor": "no such"}),
        ("schedules", {"cursor": "no such"}),
        ("keys", {"tab": "API keys", "keys": "no such"}),
        ("search", {"q": "owls", "top": "1e400", "weight": "nan", "tokens": "²", "find": "x" * 300}),
        ("search", {"q": "owls", "tab": "Why not found?", "document": "x\n/y"}),
    ],
)
def test_a_link_that_was_cut_or_grew_old_is_answered_in_words_with_a_way_on(app, org, space, page, parameters):
    view = app(org.api_key, page, **{"namespace": space, **parameters})
    assert not view.exception, view.exception[0].value
    if "cursor" in parameters or "keys" in parameters:
        next(button for button in view.button if button.label == "First page").click().run()
        assert not view.exception
        assert not view.error, visible_content(view)
