"""Failed documents by cause, with remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import format_count
from ui.parts.widgets import escape_markdown

CAUSE_FIELD = "document.failureCause"
OCR_CHANGES: Json = {"ocrConfig": {"strategy": "STANDARD_OCR"}}


class Retry(NamedTuple):
    """Another ingestion of a cause's documents, with the API's changes."""

    cause: str
    changes: Json


class Remedy(NamedTuple):
    """Words for a cause, and its end by a retry, a page or both. `source`: of the page."""

    singular: str
    plural: str
    retry: str | None = "Retry"
    page: tuple[str, str] | None = None
    source: str = ""


UPLOAD_PAGE = ("add_content", "Upload another version")
CAUSE_REMEDIES = {
    "NO_TEXT": Remedy("picture without text", "pictures without text", "Retry with OCR"),
    "PASSWORD": Remedy("file with a password", "files with a password", "Give the password"),
    "CONNECTION": Remedy("document to authorize", "documents to authorize", page=("connections", "Reconnect")),
    "PAGE_MISSING": Remedy("page that its site does not have", "pages that their sites do not have", None),
    "ADDRESS": Remedy(
        "page whose address cannot be fetched",
        "pages whose addresses cannot be fetched",
        None,
        ("add_content", "Use another address"),
        "URLS_LIST",
    ),
    "NOT_ANSWERING": Remedy("document whose source did not answer", "documents whose source did not answer"),
    "UNREADABLE": Remedy("file that cannot be read", "files that cannot be read", None, UPLOAD_PAGE),
    "OTHER": Remedy("other failure", "other failures"),
}


# Causes that may be gone without a change.
RETRIED_CAUSES = [cause for cause, remedy in CAUSE_REMEDIES.items() if remedy.retry == "Retry"]
# Failed documents whose errors are compared.
MAX_COMPARED_ERRORS = 50


class Causes(NamedTuple):
    """Failed documents by cause, most frequent first, and the error by cause where all documents share it."""

    counts: Mapping[str, int]
    reasons: Mapping[str, str]


def list_failed(person: session.Person, namespace: str) -> Json:
    failed = {"documentIngestionStatuses": ["FAILED"]}
    return person.api.list_documents(namespace, failed, size=MAX_COMPARED_ERRORS, facets=[CAUSE_FIELD], recent=True)


def find_causes(failed: Json | None) -> Causes:
    """Return the causes of the answer of `list_failed`."""
    if failed is None:
        return Causes({}, {})
    counts = {facet["value"]: facet["count"] for facet in failed["facets"][CAUSE_FIELD]}
    errors = [(document["failureCause"], document["ingestionError"]) for document in failed["documents"]]
    return Causes(counts, shared_reasons(errors, counts))


def shared_reasons(errors: Sequence[tuple[str, str | None]], counts: Mapping[str, int]) -> dict[str, str]:
    """Return the error by cause if all `counts` documents of the cause are listed with the same one."""
    reasons = {}
    for cause, count in counts.items():
        own_errors = [error for name, error in errors if name == cause]
        if len(own_errors) == count and len(set(own_errors)) == 1 and own_errors[0]:
            reasons[cause] = own_errors[0]
    return reasons


def count_open(failures: list[Json]) -> dict[str, int]:
    """Count a job run's failed documents by cause, without those that a later job run has taken."""
    return {failure["cause"]: failure["open"] for failure in failures if failure["open"]}


def show_causes(
    person: session.Person,
    counts: Mapping[str, int],
    key: str,
    *,
    scope: str = "documents:write",
    linked: bool = True,
    reasons: Mapping[str, str] | None = None,
) -> Retry | None:
    """Show each cause with its remedy and shared reason; return the retry whose button is pressed."""
    # `scope`: right for a retry. `linked`: link to the list of documents.
    pressed = None
    for cause, count in counts.items():
        remedy = CAUSE_REMEDIES[cause]
        with st.container(horizontal=True, vertical_alignment="center"):
            text = f"{count:,} {remedy.singular if count == 1 else remedy.plural}"
            if linked:
                widgets.link_page("documents", text, "error", status="FAILED", cause=cause)
            else:
                st.markdown(f":material/error: {text}", width="content")
            # The button of a retry with a change says what the reason would.
            if remedy.retry in {None, "Retry"} and (reason := (reasons or {}).get(cause)):
                st.caption(escape_markdown(reason), width="content")
            if remedy.page:
                widgets.link_page(*remedy.page, "arrow_forward", **({"source": remedy.source} if remedy.source else {}))
            label = (remedy.retry or "").replace("Retry", "Retry all" if count > 1 else "Retry", 1)
            if not label or not person.may(scope):
                continue
            if cause == "PASSWORD":
                password = _ask_password(label, f"{key}-{cause}")
                pressed = Retry(cause, {"password": password}) if password else pressed
            elif st.button(label, icon=":material/replay:", key=f"{key}-{cause}"):
                pressed = Retry(cause, OCR_CHANGES if cause == "NO_TEXT" else {})
    return pressed


def _ask_password(label: str, key: str) -> str:
    """Show the password form; return the password once sent, else ""."""
    with st.popover(label, icon=":material/key:"), st.form(key, clear_on_submit=True, border=False):
        options: Json = {"type": "password", "autocomplete": "off", "max_chars": 255}
        password = st.text_input("Password of the file", key=f"{key}-field", **options)
        st.caption("It opens the file for this retry, and is deleted afterwards.")
        return password if st.form_submit_button("Retry with this password", icon=":material/replay:") else ""


def where_cause(cause: str) -> Json:
    """Return the condition for a cause."""
    return {"field": CAUSE_FIELD, "op": "eq", "value": cause}


def narrow_to_retries(config: Json) -> Json:
    """Narrow a filter to the documents that a retry without a change can help."""
    condition = {"field": CAUSE_FIELD, "op": "in", "value": RETRIED_CAUSES}
    return {**config, "where": {"all": [condition, *([config["where"]] if "where" in config else [])]}}


def offer_retries(
    person: session.Person, namespace: str, causes: Causes, key: str, config: Json | None = None
) -> str | None:
    """Show causes with retries; return the result of a started retry as text, else None."""
    retry = show_causes(person, causes.counts, key, linked=config is None, reasons=causes.reasons)
    if retry is None:
        return None
    body = {"namespaceId": namespace, "filterConfig": config or {"where": where_cause(retry.cause)}, **retry.changes}
    with frame.shown_refusal():
        return summarize_resync(widgets.post_once(person, "/v1/documents/resync", body))
    return None


def summarize_resync(response: Json, effect: str = "queued for resync") -> str:
    """Summarize a resync as Markdown: queued documents, and reasons for the others."""
    text = f"{format_count(response['itemsQueued'], 'document')} {effect}."
    if response["itemsSkipped"]:
        reasons = {document["error"]: None for document in response["documents"] if document["error"]}
        text += f" {format_count(response['itemsSkipped'], 'document')} left out: {' '.join(list(reasons)[:3])}"
    return escape_markdown(text)
