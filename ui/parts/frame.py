"""Around every page: the sign-in form, the sidebar, and what a failed request looks like."""

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
from ui.parts import widgets
from ui.parts.labels import format_count
from ui.parts.widgets import escape_markdown, format_code

T = TypeVar("T")


def offer_sign_in(refusal: ApiError | None = None) -> None:
    """Lead to the form for an API key, or to the identity provider. After the sign-in, the linked page opens.

    `refusal`: why the API does not take the key or the token that signed in before.
    """
    _, middle, _ = st.columns([1, 2, 1])
    with middle:
        st.header("Retrieval Service")
        if session.offers_openid():
            _openid(refusal)
        elif refusal is not None and session.key_has_ended(refusal):
            st.warning("Your key is not valid any more. Sign in again; this page opens where you left it.")
        elif refusal is not None:
            show_error(refusal)
        else:
            st.write("You are signed out.")
        address = sign_in_page.build_link(urlsplit(st.context.url or "/").path, urlencode(st.query_params.to_dict()))
        st.html(f'<a href="{escape(address)}" target="_self">Sign in with an API key</a>')


def _openid(refusal: ApiError | None) -> None:
    if refusal is not None and refusal.status == 401:
        reason = "has ended" if refusal.reason == "expired_token" else "is not accepted"
        st.warning(f"Your sign-in {reason}. {escape_markdown(refusal.message)}", icon=":material/lock_clock:")
    elif refusal is not None:
        show_error(refusal)
    st.button("Sign in with single sign-on", key="openid", type="primary", width="stretch", on_click=_to_provider)
    if refusal is not None and session.openid_token() is not None:
        st.button("Sign in as another person", key="openid_other", width="stretch", on_click=session.sign_out)
    st.caption(f"API: {session.api_address()}. You are led to your organization's sign-in page and back.")


def _to_provider() -> None:
    session.remember_address(st.context.cookies.get(session.COOKIE), st.context.url, st.query_params.to_dict())
    st.login()


STYLE = """<style>
[data-testid="stElementToolbar"] button[aria-label="Download as CSV"] {display: none}
[data-testid="stMainBlockContainer"] {padding-top: 3.5rem; max-width: 76rem}
[data-testid="stPageLink"] p {white-space: normal}
div[data-testid="stCaptionContainer"] {opacity: .8}
button[data-testid^="stBaseButton-primary"]:not(:disabled) {
background-color: #2456c9; border-color: #2456c9; color: #fff}
button[data-testid^="stBaseButton-primary"]:not(:disabled):hover {background-color: #1c46a8}
@media (max-width: 640px) {
[data-testid="stMainBlockContainer"] {padding-left: 1rem; padding-right: 1rem}
}
@media (max-width: 1000px) {
[class*="st-key-key-"] [data-testid="stColumn"] {min-width: 7rem}
[data-testid="stButtonGroup"] > div {flex-wrap: wrap}
[data-testid="stColumn"]:has(> div > [data-testid="stElementContainer"] > [data-testid="stCheckbox"]) {min-width: 7rem}
[data-testid="stColumn"]:has(> div > [data-testid="stElementContainer"] > [data-testid="stMetric"]) {
min-width: calc(50% - .5rem); flex: 1 1 calc(50% - .5rem)}
}
</style>"""
"""A table's own export writes formulas as they are; the buttons below the tables do not. Captions and primary buttons
are told apart from what is behind them at 4.5:1 at least, in both themes."""


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
    """A page's title, and beside it the choice of its namespace, which is returned."""
    left_column, right_column = st.columns([3, 2], vertical_alignment="bottom")
    left_column.title(title)
    with right_column:
        return choose_namespace(person)


def choose_namespace(person: session.Person) -> str:
    space = session.find_current_namespace(person)
    if space is None:
        st.info("There is no namespace yet. Create one under Namespaces; content and searches live in one.")
        st.stop()
    linked, namespace = session.read_parameter("namespace"), str(space["id"])
    if linked and linked != namespace:
        not_here()
    session.remember_namespace(person, namespace)
    session.set_parameters(namespace=namespace)
    show_chooser(person, "page_namespace", f"Namespace: {escape_markdown(space['name'])}", _open_namespace)
    return namespace


def _open_namespace(namespace: str) -> None:
    session.set_parameters(**{**dict.fromkeys(session.OF_NAMESPACE), "namespace": namespace})


def choose_optional(person: session.Person, key: str, everything: str) -> str:
    """Show the choice of a namespace or of all of them; return its id, or ""."""
    chosen = f"{key}_value"
    space = session.find_namespace(person, st.session_state.get(chosen))
    label = f"Namespace: {escape_markdown(space['name'])}" if space else everything
    show_chooser(person, key, label, partial(st.session_state.__setitem__, chosen), everything=everything)
    return str(space["id"]) if space else ""


def show_chooser(
    person: session.Person, key: str, label: str, choose: Callable[[str], None], *, everything: str = ""
) -> None:
    """Show a button that opens a search of the namespaces by name; `choose` is called with the id of the one that is
    clicked. `everything`: label of a choice of none."""

    def take(namespace: str) -> None:
        st.session_state[key], st.session_state[f"{key}_name"] = False, ""
        st.session_state[f"{key}_chosen"] = True
        choose(namespace)

    @live_fragment()
    def show() -> None:
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
                st.button(everything, key=f"{key}_", width="stretch", on_click=take, args=("",))
            with st.container(height=320 if len(spaces) > 6 else "content", border=False, gap="xsmall"):
                for space in spaces:
                    name_key, click = f"{key}_{space['id']}", partial(take, space["id"])
                    st.button(_describe_namespace(space, spaces), key=name_key, width="stretch", on_click=click)
            if not spaces:
                st.caption("No namespace has this in its name.")
            elif data["totalCount"] > len(spaces):
                st.caption(f"{len(spaces)} of {data['totalCount']:,}: a part of the name finds the others.")

    show()


def _describe_namespace(space: Json, spaces: list[Json]) -> str:
    parts = [escape_markdown(space["name"])]
    if sum(listed_space["name"] == space["name"] for listed_space in spaces) > 1:
        parts.append(f"`{space['id'][-6:]}`")
    if "documentCount" in space:
        parts.append(f":gray[{format_count(space['documentCount'], 'document')}]")
    if space.get("failedCount"):
        parts.append(f":red[{space['failedCount']:,} failed]")
    return " · ".join(parts)


def not_here() -> None:
    """Show a message for a namespace that does not exist or belongs to another tenant; both look the same."""
    st.warning("The namespace in this link does not exist, or is not yours to see. Choose another one.")


@contextmanager
def error_boundary(*, part: bool = False) -> Iterator[None]:
    """Shows a refusal of the API in words with its code; an ended key leads back to the sign-in form.

    An API that lets one request within time out is sent no other. `part`: it is about a part of a page that runs by
    itself, and not about the page.
    """
    try:
        with session.silence_notices():
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
            first_page = partial(session.set_parameters, **dict.fromkeys(widgets.PLACES))
            st.button("First page", icon=":material/first_page:", key="first_page", on_click=first_page)
        elif not error.status and not part:
            # To load the page anew would end the session of a key.
            st.button("Try again", icon=":material/refresh:", key="try_again")


def live_fragment(every: float | None = None) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorator of a fragment of a page: reruns by itself every given number of seconds, and shows its own errors."""

    def decorate(part: Callable[[], None]) -> Callable[[], None]:
        @st.fragment(run_every=every)
        def guarded() -> None:
            with error_boundary(part=True):
                part()

        return guarded

    return decorate


def follow(
    first: T, fetch: Callable[[], T], state: Callable[[T], int], draw: Callable[[T], None], every: float
) -> None:
    """Draw what was fetched first, and fetch it again while its state is not 0; another state runs the page anew."""
    fetched, begun = [first], state(first)

    @live_fragment(every if begun else None)
    def live() -> None:
        current = fetched.pop() if fetched else fetch()
        if state(current) != begun:
            st.rerun(scope="app")
        draw(current)

    live()


def show_error(error: ApiError) -> None:
    st.error(error_text(error), icon=":material/error:")


def toast_error(error: ApiError) -> None:
    st.toast(error_text(error), icon=":material/error:")


@contextmanager
def shown_refusal(show: Callable[[ApiError], None] = show_error) -> Iterator[None]:
    """Shows a refusal of the API in its place; what follows on the page is shown, too. `show`: for callbacks, whose
    drawings have no place on the page, `toast_error` or `keep_outcome`."""
    try:
        yield
    except ApiError as error:
        show(error)


_OUTCOME = "outcome"


def keep_outcome(outcome: str | ApiError, runs: Sequence[str] = (), *, is_partial: bool = False) -> None:
    """Keep the result of an action, as Markdown, for the run of the page that follows it. `runs`: those it started."""
    st.session_state[_OUTCOME] = outcome, runs, is_partial


def show_outcome() -> bool:
    """Show the result of the last action, once; False without one."""
    outcome, runs, is_partial = st.session_state.pop(_OUTCOME, (None, (), False))
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


_WHO = "see_as"
_TYPED = "see_as_typed"
READS = frozenset({"namespaces:read", "documents:read", "search"})
"""What is answered on behalf of a user."""
LONGEST = 256
"""Bytes that a name may take."""


def viewer_name() -> str:
    """Return the user that this browser session sees the service as; empty for the key itself."""
    viewer = st.session_state.get(_WHO)
    return viewer if isinstance(viewer, str) else ""


def current_person() -> session.Person:
    """The signed-in person, whose requests are made on behalf of the one who is seen as; then nothing is changed."""
    person = session.current_person()
    if not viewer_name():
        return person
    return replace(person, api=replace(person.api, viewer=viewer_name()), scopes=person.scopes & READS)


ON_BEHALF = frozenset({"", "overview", "documents", "search"})
"""Addresses of pages that show what the other person sees."""


def show_choice(person: session.Person, page: str) -> None:
    """The choice in the sidebar, for keys that read; while another person is seen as, the banner of the page."""
    may_ask = person.role in {None, "admin"}  # of people who sign in by OpenID Connect admins alone
    if not may_ask or not (person.may("documents:read") or person.may("search")):
        return
    with st.sidebar, st.expander("See as another person", icon=":material/visibility:", expanded=bool(viewer_name())):
        about = "Documents and searches then show what this user may see, by the access of the documents."
        st.text_input("User", placeholder="ada@example.com", key=_TYPED, on_change=_choose, help=about)
    if viewer_name():
        text_column, back = st.columns([5, 1], vertical_alignment="center")
        viewer = format_code(viewer_name())
        text_column.warning(
            f"You see this page as {viewer}. Nothing can be changed meanwhile."
            if page in ON_BEHALF
            else f"This page is your own view. You see the overview, documents and searches as {viewer}.",
            icon=":material/visibility:",
        )
        back.button("Stop", icon=":material/visibility_off:", width="stretch", key="see_as_stop", on_click=_stop)


def _choose() -> None:
    st.session_state[_WHO] = str(st.session_state.get(_TYPED) or "").strip()[:LONGEST]


def _stop() -> None:
    st.session_state[_WHO] = st.session_state[_TYPED] = ""
