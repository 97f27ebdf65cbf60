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
    """Chosen retry of a cause's documents. `changes`: fields of the API's request, such as a password."""

    cause: str
    changes: Json


class Remedy(NamedTuple):
    """Names of a cause's documents, label of the retry, and page with link text. `source`: parameter of the page."""

    singular: str
    plural: str
    retry_label: str | None = "Retry"
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
# Causes that may be over: a retry without changes can help.
RETRIED_CAUSES = [cause for cause, remedy in CAUSE_REMEDIES.items() if remedy.retry_label == "Retry"]
# Failed documents of one request, to find errors that all of them share.
MAX_COMPARED_ERRORS = 50


class Causes(NamedTuple):
    """Numbers of failed documents by cause, most frequent first, and errors shared by all documents of a cause."""

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
    """Return the error of each cause whose `counts` documents are all in `errors` with the same error."""
    reasons = {}
    for cause, count in counts.items():
        cause_errors = [error for name, error in errors if name == cause]
        if len(cause_errors) == count and len(set(cause_errors)) == 1 and cause_errors[0]:
            reasons[cause] = cause_errors[0]
    return reasons


def count_open(failures: list[Json]) -> dict[str, int]:
    """Return numbers of a job run's failed documents by cause, without documents that a later run has taken."""
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
    """Show each cause with remedy and shared error; return the retry of a pressed button."""
    # `scope`: permission for a retry. `linked`: link each cause to its documents.
    chosen_retry = None
    for cause, count in counts.items():
        remedy = CAUSE_REMEDIES[cause]
        with st.container(horizontal=True, vertical_alignment="center"):
            text = f"{count:,} {remedy.singular if count == 1 else remedy.plural}"
            if linked:
                widgets.link_page("documents", text, "error", status="FAILED", cause=cause)
            else:
                st.markdown(f":material/error: {text}", width="content")
            # The label of another retry says the same as the error.
            if remedy.retry_label in {None, "Retry"} and (reason := (reasons or {}).get(cause)):
                st.caption(escape_markdown(reason), width="content")
            if remedy.page:
                widgets.link_page(*remedy.page, "arrow_forward", **({"source": remedy.source} if remedy.source else {}))
            label = (remedy.retry_label or "").replace("Retry", "Retry all" if count > 1 else "Retry", 1)
            if not label or not person.may(scope):
                continue
            if cause == "PASSWORD":
                password = _ask_password(label, f"{key}-{cause}")
                chosen_retry = Retry(cause, {"password": password}) if password else chosen_retry
            elif st.button(label, icon=":material/replay:", key=f"{key}-{cause}"):
                chosen_retry = Retry(cause, OCR_CHANGES if cause == "NO_TEXT" else {})
    return chosen_retry


def _ask_password(label: str, key: str) -> str:
    """Show the password form; return the password once sent, else ""."""
    with st.popover(label, icon=":material/key:"), st.form(key, clear_on_submit=True, border=False):
        options: Json = {"type": "password", "autocomplete": "off", "max_chars": 255}
        password = st.text_input("Password of the file", key=f"{key}-field", **options)
        st.caption("It opens the file for this retry, and is deleted afterwards.")
        return password if st.form_submit_button("Retry with this password", icon=":material/replay:") else ""


def cause_condition(cause: str) -> Json:
    """Return the API's filter condition for the documents of a cause."""
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
    documents = config or {"where": cause_condition(retry.cause)}
    body = {"namespaceId": namespace, "filterConfig": documents, **retry.changes}
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
