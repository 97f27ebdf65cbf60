"""A document's chunks, and each in its place: marked in the text with its overlaps shaded, boxed on its page."""

from __future__ import annotations

import html

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import url_state, widgets
from ui.parts.labels import count

PAGE = 50
AROUND = 1500
"""Characters of text shown before and after a chunk."""
STYLE = """<style>
.chunk-text {white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; line-height: 1.55}
.chunk-text mark {background: rgba(59,116,224,.22); color: inherit; padding: 1px 0}
.chunk-text .overlap {background: rgba(217,140,31,.38)}
.chunk-text .aside {opacity: .55}
</style>"""


def show(who: session.Person, namespace: str, document: Json) -> None:
    """Choose a chunk; see it in the text, and on its page where the document has pages."""
    linked = _linked()
    start = linked // PAGE * PAGE
    data = who.api.get(
        f"/v1/documents/{document['id']}/chunks",
        namespaceId=namespace,
        firstIndex=max(0, start - 1),
        pageSize=PAGE + 2,
    )
    read = data["chunks"]
    chunks = [chunk for chunk in read if start <= chunk["index"] < start + PAGE]
    if not chunks:
        widgets.show_empty("No searchable chunks.", "A document has them once it is indexed and holds text.")
        return
    known = {chunk["index"]: chunk for chunk in chunks}
    fields = url_state.Fields(f"chunk-{document['id']}-{start}", ("chunk",))
    fields.follow({"chunk": linked})
    fields.offer("chunk", known)
    at = st.selectbox(
        f"Chunk ({document['documentProperties']['embeddingCount'] or len(chunks):,} in all)",
        list(known),
        format_func=lambda one: _title(known[one]),
        key=fields.key("chunk"),
    )
    chosen = known[at]
    fields.write(chunk=str(at))
    _more(start, further=read[-1]["index"] >= start + PAGE)
    neighbours = {chunk["index"]: chunk for chunk in read}
    left, right = st.columns([3, 2]) if chosen["page"] else (st.container(), None)
    with left:
        st.html(STYLE + marked(_text(who, document), chosen, neighbours))
        st.caption(
            f"characters {chosen['start']:,} to {chosen['end']:,} · {count(chosen['tokens'], 'token')}"
            + (f" · page {chosen['page']}" if chosen["page"] else "")
            + " · orange: shared with the chunk before or after"
        )
    if right is not None:
        with right:
            widgets.show_page_image(who, namespace, document, chosen["page"], chosen["index"])


def marked(text: str | None, chunk: Json, others: dict[int, Json]) -> str:
    """The chunk within its surroundings, as HTML in which nothing of the document is markup."""
    if text is None or text[chunk["start"] : chunk["end"]] != chunk["content"]:
        return f'<div class="chunk-text"><mark>{html.escape(chunk["content"])}</mark></div>'
    start, end = chunk["start"], chunk["end"]
    before = others.get(chunk["index"] - 1)
    after = others.get(chunk["index"] + 1)
    head = min(max(start, before["end"]), end) if before else start
    tail = max(min(end, after["start"]), head) if after else end
    parts = (
        ("aside", text[max(0, start - AROUND) : start]),
        ("overlap", text[start:head]),
        ("", text[head:tail]),
        ("overlap", text[tail:end]),
        ("aside", text[end : end + AROUND]),
    )
    spans = [f'<span class="{name}">{html.escape(part)}</span>' for name, part in parts]
    return f'<div class="chunk-text">{spans[0]}<mark>{"".join(spans[1:4])}</mark>{spans[4]}</div>'


def _linked() -> int:
    wanted = session.parameter("chunk") or ""
    return min(int(wanted), 2**31 - PAGE - 1) if wanted.isdecimal() and len(wanted) < 11 else 0


def _title(chunk: Json) -> str:
    page = f" · page {chunk['page']}" if chunk["page"] else ""
    return f"{chunk['index']}{page} · {' '.join(chunk['content'].split())[:90]}"


def _more(start: int, *, further: bool) -> None:
    """The ways to the chunks before and after those of this page."""
    if not start and not further:
        return
    with st.container(horizontal=True):
        if start and st.button(f"Chunks before {start}", icon=":material/chevron_left:"):
            session.remember(chunk=str(start - PAGE))
            st.rerun()
        if further and st.button(f"Chunks from {start + PAGE}", icon=":material/chevron_right:"):
            session.remember(chunk=str(start + PAGE))
            st.rerun()


def _text(who: session.Person, document: Json) -> str | None:
    content = who.api.file(document.get("parsedTextFileUrl"))
    return content.decode("utf-8", "replace") if content is not None else None
