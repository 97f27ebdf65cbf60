"""Around every page: the sign-in form, the sidebar, and what a failed request looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from ui import session
from ui.client import ApiError
from ui.parts.text import plain

_REFUSED = "sign_in_refused"


def sign_in_form() -> None:
    """Asks for an API key; the page that was linked to opens once it is given."""
    _, middle, _ = st.columns([1, 2, 1])
    with middle, st.form("sign-in"):
        st.subheader("Retrieval Service")
        st.text_input("API key", type="password", autocomplete="current-password", key="sign_in_key")
        st.text_input("Tenant", help="Leave empty for the scope without a tenant.", key="sign_in_tenant")
        st.caption(f"API: {session.api_address()}. The key stays in this browser session and is forgotten with it.")
        st.form_submit_button("Sign in", type="primary", width="stretch", on_click=_sign_in)
        refused = st.session_state.pop(_REFUSED, None)
        if isinstance(refused, ApiError):
            show(refused)
        elif refused:
            st.error(refused)


def _sign_in() -> None:
    """What was typed, before the page is built: so the page that was linked to comes at once."""
    key, tenant = (st.session_state.get(typed, "") for typed in ("sign_in_key", "sign_in_tenant"))
    if not key.strip():
        st.session_state[_REFUSED] = (
            "Type an API key. `retrieval up` prints one; an administrator makes others under Keys."
        )
        return
    try:
        session.sign_in(key, tenant)
    except ApiError as error:
        st.session_state[_REFUSED] = error
        return
    for typed in ("sign_in_key", "sign_in_tenant"):
        st.session_state.pop(typed, None)


STYLE = """<style>
[data-testid="stElementToolbar"] button[aria-label="Download as CSV"] {display: none}
[data-testid="stMainBlockContainer"] {padding-top: 3.5rem; max-width: 76rem}
[data-testid="stPageLink"] p {white-space: normal}
@media (max-width: 640px) {
[data-testid="stMainBlockContainer"] {padding-left: 1rem; padding-right: 1rem}
[data-testid="stColumn"]:has(> div > [data-testid="stElementContainer"] > [data-testid="stMetric"]) {
min-width: calc(50% - .5rem); flex: 1 1 calc(50% - .5rem)}
}
</style>"""
"""A table's own export writes formulas as they are; the buttons below the tables do not."""


def sidebar(who: session.Person) -> None:
    """Who is signed in, and the way out."""
    st.html(STYLE)
    with st.sidebar:
        st.caption(f"Signed in with the key “{plain(who.key_name)}”" + _where(who))
        st.button("Sign out", icon=":material/logout:", on_click=session.sign_out, width="stretch")


def _where(who: session.Person) -> str:
    tenant = who.tenant or who.api.tenant
    return f", tenant {plain(tenant)}" if tenant else ""


def head(who: session.Person, title: str) -> str:
    """A page's title, and beside it the choice of its namespace, which is returned."""
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    left.title(title)
    with right:
        return choose_namespace(who)


def choose_namespace(who: session.Person) -> str:
    """The namespace of the page: that of its address, else the last one seen. Ends the page if there is none."""
    spaces = session.namespaces(who)
    if not spaces:
        st.info("There is no namespace yet. Create one under Namespaces; content and searches live in one.")
        st.stop()
    names = {space["id"]: space["name"] for space in spaces}
    linked = session.parameter("namespace")
    if linked and linked not in names:
        not_here()
    known = list(names)
    before = linked if linked in names else session.last_seen()
    chosen = st.selectbox(
        "Namespace",
        known,
        index=known.index(before) if before in names else 0,
        format_func=lambda one: f"{names[one]}  ·  {one[-6:]}",
    )
    session.seen(chosen)
    session.remember(namespace=chosen)
    return str(chosen)


def not_here() -> None:
    """A namespace that is not there and one of somebody else look the same."""
    st.warning("The namespace in this link does not exist, or is not yours to see. Choose another one.")


@contextmanager
def trouble() -> Iterator[None]:
    """Shows a refusal of the API in words with its code; an ended key leads back to the sign-in form."""
    try:
        yield
    except ApiError as error:
        if session.unauthorized(error):
            st.session_state.clear()
            st.warning("Your key is not valid any more. Sign in again; this page opens where you left it.")
            sign_in_form()
        else:
            show(error)


def show(error: ApiError) -> None:
    """One refusal: what is wrong, where, and the code to look up."""
    where = f" Field: `{error.field}`." if error.field else ""
    st.error(f"{plain(error.message)}{where}  \n`{error.code}`", icon=":material/error:")
