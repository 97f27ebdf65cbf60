"""Problems by severity: a strip on every page, and a list."""

from __future__ import annotations

from html import escape

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, widgets
from ui.parts.labels import time_since
from ui.parts.widgets import escape_markdown

STRIP_REFRESH_SECONDS = 10.0
# By kind; the others are repaired in Prefect or at the machine.
PROBLEM_PAGES = {
    "CONNECTION": "connections",
    "SCHEDULE": "schedules",
    "WEBHOOK": "webhooks",
    "REMOVALS": "connections",
    "HIDDEN_PASSAGES": "documents",
}
# Parameter of the page that opens the object.
OBJECT_PARAMETERS = {"CONNECTION": "connection", "WEBHOOK": "webhook"}
STRIP_TITLES = {"blocked": "Nothing moves", "failing": "Failing"}
# The same colors in both themes, with a contrast of at least 4.5:1.
STRIP_STYLE = """<style>
[class*="st-key-strip_"] {border-radius: .5rem; padding: .55rem .9rem; margin-bottom: .25rem}
[class*="st-key-strip_"] > div:first-child {flex: 1 1 0; min-width: 15rem}
.st-key-strip_blocked {background: #b3261e} .st-key-strip_failing {background: #ffdf9e}
.st-key-strip_blocked :is(div, p, a, span, code) {color: #fff !important}
.st-key-strip_failing :is(div, p, a, span, code) {color: #3d2a00 !important}
[class*="st-key-strip_"] :is(div, code) {font-size: .92rem}
[class*="st-key-strip_"] code {background: none} [class*="st-key-strip_"] a p {text-decoration: underline}
</style>"""


def show_strip(person: session.Person, page: str) -> None:
    """Show what blocks the service, refreshed; nothing while work proceeds."""
    if not person.may("ingest:read"):
        return

    @frame.live_fragment(STRIP_REFRESH_SECONDS)
    def refresh() -> None:
        try:
            problems = person.api.recall("/v1/problems")["problems"]
        except ApiError:
            # The page shows the error of its own requests.
            return
        for severity in STRIP_TITLES:
            if shown := [problem for problem in problems if problem["severity"] == severity]:
                _draw_strip(person, severity, shown, is_queue_page=page == "queue")

    refresh()


def _draw_strip(person: session.Person, severity: str, problems: list[Json], *, is_queue_page: bool) -> None:
    lines = "".join(f"<div>{_describe_html(problem)}</div>" for problem in problems)
    with st.container(key=f"strip_{severity}", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(f'{STRIP_STYLE}<div role="alert"><strong>{STRIP_TITLES[severity]}</strong>{lines}</div>')
        if link := next((problem["link"] for problem in problems if problem["link"]), None):
            st.page_link(link, label="Open in Prefect", icon=":material/open_in_new:")
        if person.may("admin") and not is_queue_page:
            widgets.link_page("queue", "Queue and workers", "monitor_heart")


def _describe_html(problem: Json) -> str:
    lead = "waiting for" if problem["severity"] == "blocked" else "for"
    since = f" · {lead} {time_since(problem['since'])}" if problem["since"] else ""
    parts = " ".join(filter(None, (problem["cause"], problem["remedy"]))).split("`")
    text = "".join(f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(parts))
    return text + since


def show_list(problems: list[Json]) -> None:
    """Show problems, each as a link to the page for the repair."""
    for problem in problems:
        text = escape_markdown(" ".join(filter(None, (problem["cause"], problem["remedy"]))))
        is_failing, page = problem["severity"] == "failing", PROBLEM_PAGES.get(problem["kind"])
        icon = "warning" if is_failing else "info"
        with st.container(horizontal=True, vertical_alignment="center"):
            if page:
                parameter = OBJECT_PARAMETERS.get(problem["kind"])
                widgets.link_page(page, text, icon, **({parameter: problem["objectId"]} if parameter else {}))
            elif problem["link"]:
                st.page_link(problem["link"], label=text, icon=f":material/{icon}:")
            else:
                st.markdown(f":material/{icon}: {text}", width="content")
            if problem["since"]:
                st.caption(f"for {time_since(problem['since'])}", width="content")
