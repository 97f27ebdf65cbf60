"""Frame of every page: sign-in form, sidebar and error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import escape
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import streamlit as st

from ui import session, sign_in_page
from ui.client import ApiError, Json
from ui.parts import waiting, widgets
from ui.parts.labels import format_count
from ui.parts.widgets import escape_markdown, format_code

DataT = TypeVar("DataT")


def offer_sign_in(refusal: ApiError | None = None) -> None:
    """Offer the API key form or the identity provider; `refusal` is the API's reason."""
    _, middle, _ = st.columns([1, 2, 1])
    with middle:
        st.header("Retrieval Service")
        if session.has_openid():
            _offer_openid(refusal)
        elif refusal is not None and session.key_has_ended(refusal):
            st.warning("Your key is not valid any more. Sign in again; this page opens where you left it.")
        elif refusal is not None:
            show_error(refusal)
        else:
            st.write("You are signed out.")
        address = sign_in_page.build_link(urlsplit(st.context.url or "/").path, urlencode(st.query_params.to_dict()))
        st.html(f'<a href="{escape(address)}" target="_self">Sign in with an API key</a>')


def _offer_openid(refusal: ApiError | None) -> None:
    if refusal is not None and refusal.status == 401:
        reason = "has ended" if refusal.reason == "expired_token" else "is not accepted"
        st.warning(f"Your sign-in {reason}. {escape_markdown(refusal.message)}", icon=":material/lock_clock:")
    elif refusal is not None:
        show_error(refusal)
    st.button("Sign in with single sign-on", key="openid", type="primary", width="stretch", on_click=_open_provider)
    if refusal is not None and session.openid_token() is not None:
        st.button("Sign in as another person", key="openid_other", width="stretch", on_click=session.sign_out)
    st.caption(f"API: {session.api_address()}. You are led to your organization's sign-in page and back.")


def _open_provider() -> None:
    session.remember_address(st.context.cookies.get(session.BROWSER_COOKIE), st.context.url, st.query_params.to_dict())
    st.login()


def show_sidebar(person: session.Person) -> None:
    name, tenant = escape_markdown(person.key_name), person.tenant or person.api.tenant
    text = f"Signed in as {name} ({person.role})" if person.role else f"Signed in with the key “{name}”"
    with st.sidebar:
        st.caption(text + (f", tenant {escape_markdown(tenant)}" if tenant else ""))
        if person.role is not None and person.tenant is None:
            st.text_input("Tenant", value=person.api.tenant, key="tenant_typed", on_change=_choose_tenant)
        st.button("Sign out", icon=":material/logout:", on_click=session.sign_out, width="stretch")


def _choose_tenant() -> None:
    session.choose_tenant(st.session_state.get("tenant_typed", ""))


def show_head(person: session.Person, title: str) -> str:
    """Show a page's title and the choice of its namespace; return the namespace."""
    left_column, right_column = st.columns([3, 2], vertical_alignment="bottom")
    left_column.title(title)
    with right_column:
        return choose_namespace(person)


def ask_early(person: session.Person) -> None:
    """Send the first requests of every page in parallel; their answers are recalled."""
    linked = session.read_parameter("namespace") or st.session_state.get(session.NAMESPACE_KEY)
    # One answer of each run is fresh: it says whether the key has ended.
    path = "/v1/problems" if person.may("ingest:read") else "/v1/keys/current"
    fresh = partial(person.api.recall, path, is_fresh=True)
    try:
        waiting.ask_in_parallel({"fresh": fresh, "space": lambda: session.find_namespace(person, linked) or {}})
    except ApiError as error:  # the page shows the others
        if session.key_has_ended(error):
            raise


def choose_namespace(person: session.Person) -> str:
    space = session.find_current_namespace(person)
    if space is None:
        st.info("There is no namespace yet. Create one under Namespaces; content and searches live in one.")
        st.stop()
    linked, namespace = session.read_parameter("namespace"), str(space["id"])
    if linked and linked != namespace:
        warn_unknown_namespace()
    session.remember_namespace(person, namespace)
    session.set_parameters(namespace=namespace)
    show_chooser(person, "page_namespace", f"Namespace: {escape_markdown(space['name'])}", _open_namespace)
    return namespace


def _open_namespace(namespace: str) -> None:
    session.set_parameters(**{**dict.fromkeys(session.NAMESPACE_PARAMETERS), "namespace": namespace})


def choose_optional(person: session.Person, key: str, everything: str) -> str:
    """Show the choice of a namespace or all of them; return the id, or ""."""
    chosen = f"{key}_value"
    space = session.find_namespace(person, st.session_state.get(chosen))
    label = f"Namespace: {escape_markdown(space['name'])}" if space else everything
    show_chooser(person, key, label, partial(st.session_state.__setitem__, chosen), everything=everything)
    return str(space["id"]) if space else ""


def show_chooser(
    person: session.Person, key: str, label: str, choose: Callable[[str], None], *, everything: str = ""
) -> None:
    """Show a button for a search of namespaces by name; call `choose` with the clicked id."""

    def choose_and_close(namespace: str) -> None:
        st.session_state[key], st.session_state[f"{key}_name"] = False, ""
        st.session_state[f"{key}_chosen"] = True
        choose(namespace)

    @live_fragment()
    def show_popover() -> None:
        if st.session_state.pop(f"{key}_chosen", False):
            st.rerun()
        chooser = st.popover(label, icon=":material/database:", width="stretch", wrap=False, key=key, on_change="rerun")
        if not chooser.open:
            return
        with chooser:
            search: Json = {"type": "search", "icon": ":material/search:", "placeholder": "Part of its name"}
            name = st.text_input("Find a namespace", key=f"{key}_name", live=True, max_chars=200, **search)
            data = session.list_namespaces(person, name or "")
            spaces = data["namespaces"]
            if everything:
                st.button(everything, key=f"{key}_", width="stretch", on_click=choose_and_close, args=("",))
            with st.container(height=320 if len(spaces) > 6 else "content", border=False, gap="xsmall"):
                for space in spaces:
                    name_key, click = f"{key}_{space['id']}", partial(choose_and_close, space["id"])
                    st.button(_describe_namespace(space, spaces), key=name_key, width="stretch", on_click=click)
            if not spaces:
                st.caption("No namespace has this in its name.")
            elif data["totalCount"] > len(spaces):
                st.caption(f"{len(spaces)} of {data['totalCount']:,}: a part of the name finds the others.")

    show_popover()


def _describe_namespace(space: Json, spaces: list[Json]) -> str:
    parts = [escape_markdown(space["name"])]
    if sum(listed_space["name"] == space["name"] for listed_space in spaces) > 1:
        parts.append(f"`{space['id'][-6:]}`")
    if "documentCount" in space:
        parts.append(f":gray[{format_count(space['documentCount'], 'document')}]")
    if space.get("failedCount"):
        parts.append(f":red[{space['failedCount']:,} failed]")
    return " · ".join(parts)


def warn_unknown_namespace() -> None:
    # Unknown and foreign namespaces look the same.
    st.warning("The namespace in this link does not exist, or is not yours to see. Choose another one.")


@contextmanager
def error_boundary(*, part: bool = False) -> Iterator[None]:
    """Show a refusal of the API; an ended key leads to the sign-in form."""
    # `part`: a fragment of the page that runs by itself.
    try:
        with session.guard_timeouts():
            yield
    except ApiError as error:
        if session.key_has_ended(error):
            st.session_state.clear()
            if part:  # the form would stay in the fragment
                st.rerun()
            offer_sign_in(error)
            return
        show_error(error)
        if error.reason == "bad_cursor":
            first_page = partial(session.set_parameters, **dict.fromkeys(widgets.CURSOR_PARAMETERS))
            st.button("First page", icon=":material/first_page:", key="first_page", on_click=first_page)
        elif not error.status and not part:
            # A reload of the page would end the session of a key.
            st.button("Try again", icon=":material/refresh:", key="try_again")


def live_fragment(seconds: float | None = None) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorate a fragment, rerun every `seconds`, with errors shown in place."""

    def make_fragment(part: Callable[[], None]) -> Callable[[], None]:
        @st.fragment(run_every=seconds)
        def run_part() -> None:
            with error_boundary(part=True):
                part()

        return run_part

    return make_fragment


def follow(
    first: DataT,
    fetch: Callable[[], DataT],
    state: Callable[[DataT], int],
    draw: Callable[[DataT], None],
    seconds: float,
) -> None:
    """Draw `first`, then fetch and draw again until `state` changes; 0 ends the updates."""
    # Another state reruns the whole page.
    fetched, begun = [first], state(first)

    @live_fragment(seconds if begun else None)
    def draw_current() -> None:
        current = fetched.pop() if fetched else fetch()
        if state(current) != begun:
            st.rerun(scope="app")
        draw(current)

    draw_current()


def show_error(error: ApiError) -> None:
    st.error(error_text(error), icon=":material/error:")


_NOTICE_KEY = "notice"


def keep_notice(notice: str | ApiError) -> None:
    """Keep a short result (Markdown) for the corner of the next page run."""
    # Streamlit's toasts are dialogs without a name for screen readers.
    st.session_state[_NOTICE_KEY] = notice


def show_notice() -> None:
    notice = st.session_state.pop(_NOTICE_KEY, None)
    with st.container(key="notice"):
        if isinstance(notice, ApiError):
            show_error(notice)
        elif notice:
            st.success(notice, icon=":material/check:")


@contextmanager
def shown_refusal(show: Callable[[ApiError], None] = show_error) -> Iterator[None]:
    """Show a refusal of the API in place; the page continues."""
    # Callbacks draw nothing in place: they use `keep_notice` or `keep_outcome`.
    try:
        yield
    except ApiError as error:
        show(error)


_OUTCOME_KEY = "outcome"


def keep_outcome(outcome: str | ApiError, runs: Sequence[str] = (), *, is_partial: bool = False) -> None:
    """Keep an action's result (Markdown) and started runs for the next page run."""
    st.session_state[_OUTCOME_KEY] = outcome, runs, is_partial


def show_outcome() -> bool:
    """Show the last action's result once; False without any."""
    outcome, runs, is_partial = st.session_state.pop(_OUTCOME_KEY, (None, (), False))
    if isinstance(outcome, ApiError):
        show_error(outcome)
    elif is_partial:
        st.warning(outcome)
    elif outcome:
        st.success(outcome, icon=":material/check:")
    if runs:
        widgets.link_page("runs", "Progress", **({"run": runs[0]} if len(runs) == 1 else {}))
    return bool(outcome)


def error_text(error: ApiError) -> str:
    field_note = f" Field: `{error.field}`." if error.field and error.field not in error.message else ""
    return f"{escape_markdown(error.message)}{field_note}  \n`{error.code}`"


_VIEWER_KEY = "see_as"
_VIEWER_INPUT_KEY = "see_as_typed"
# Requests for another user can only read.
VIEWER_SCOPES = frozenset({"namespaces:read", "documents:read", "search"})
MAX_NAME_BYTES = 256


def viewer_name() -> str:
    """Return the viewed user of this browser session; "" for the key itself."""
    viewer = st.session_state.get(_VIEWER_KEY)
    return viewer if isinstance(viewer, str) else ""


def current_person() -> session.Person:
    """Return the signed-in person with the viewed user's rights."""
    person = session.current_person()
    if not viewer_name():
        return person
    return replace(person, api=replace(person.api, viewer=viewer_name()), scopes=person.scopes & VIEWER_SCOPES)


# Pages that show the viewed user's data.
VIEWER_PAGES = frozenset({"", "overview", "documents", "search"})


def show_choice(person: session.Person, page: str) -> None:
    """Show the choice of a viewed user in the sidebar, and a banner while active."""
    may_ask = person.role in {None, "admin"}  # with OpenID Connect, only admins
    if not may_ask or not (person.may("documents:read") or person.may("search")):
        return
    with st.sidebar, st.expander("See as another person", icon=":material/visibility:", expanded=bool(viewer_name())):
        about = "Documents and searches then show what this user may see, by the access of the documents."
        st.text_input(
            "User", placeholder="ada@example.com", key=_VIEWER_INPUT_KEY, on_change=_choose_viewer, help=about
        )
    if viewer_name():
        text_column, back = st.columns([5, 1], vertical_alignment="center")
        viewer = format_code(viewer_name())
        text_column.warning(
            f"You see this page as {viewer}. Changes are switched off."
            if page in VIEWER_PAGES
            else f"This page is your own view. You see the overview, documents and searches as {viewer}.",
            icon=":material/visibility:",
        )
        back.button(
            "Stop", icon=":material/visibility_off:", width="stretch", key="see_as_stop", on_click=_clear_viewer
        )


def _choose_viewer() -> None:
    st.session_state[_VIEWER_KEY] = str(st.session_state.get(_VIEWER_INPUT_KEY) or "").strip()[:MAX_NAME_BYTES]


def _clear_viewer() -> None:
    st.session_state[_VIEWER_KEY] = st.session_state[_VIEWER_INPUT_KEY] = ""
