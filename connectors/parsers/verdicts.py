"""Verdict on a reply: quality of text without pages, and a notice or the reason to refuse the file."""

from __future__ import annotations

import msgspec

from connectors.parsers import detect, trust
from connectors.parsers.formats.containers import ledger
from connectors.parsers.messages import Reply
from retrieval.errors import Unreadable
from retrieval.ports import PageQuality

# Further pages are only counted in a notice.
_MAX_NAMED_PAGES = 10
# Files whose format states the letters of their text, however strange.
_OFFICE_TYPES = (
    "application/vnd.openxmlformats",
    "application/vnd.oasis",
    "application/vnd.ms-",
    "application/msword",
    "application/epub",
)
_WITH_OCR = "with the OCR strategy STANDARD_OCR (ocrConfig)"
_ONLY_PICTURES = f"The PDF holds no text, only pictures or blank pages. If they are scans, retry it {_WITH_OCR}."
_BLANK_PAGES = "The PDF holds nothing but blank pages: there is no text to recognise. Upload a file with text in it."
_NOT_RECOGNISED = "No text was recognised: the file shows pictures or blank pages only. Upload a file with text in it."


def judge_reply(reply: Reply) -> Reply:
    """Add the quality of the whole text, unless its pages are judged already."""
    if reply.qualities or reply.listing or not reply.text:
        return reply
    has_declared_letters = str(reply.properties.get("mimeType", "")).startswith(_OFFICE_TYPES)
    return msgspec.structs.replace(reply, qualities=(trust.judge_whole(reply.text, declared=has_declared_letters),))


def settle_reply(reply: Reply, name: str, *, ocr: bool) -> Reply:
    """Add a notice of unread or doubtful parts. Unreadable, with the cause, if no text remains."""
    unread = [quality for quality in reply.qualities if quality.unread]
    if unread and unread[0].page is None:
        raise Unreadable(
            f"The text of the file cannot be read: {unread[0].reasons[0].lower()} "
            "Save it again from the program that made it, as a PDF for example, and upload that."
        )
    if not any(map(str.isalnum, reply.text)) and reply.count:
        if reply.members:
            listing = ledger.list_members(name, reply.members)
            return msgspec.structs.replace(
                reply, text=listing, title=detect.one_line(name), pages=(), qualities=(), listing=True
            )
        raise Unreadable(_refusal_message(reply, unread, ocr=ocr), len(unread))
    notices = [_unread_notice(unread, ocr=ocr)] if unread else []
    strange = [quality for quality in reply.qualities if quality.page is None and quality.quality < trust.MIN_QUALITY]
    notices += [f"To check: {' '.join(quality.reasons)}" for quality in strange]
    if not notices:
        return reply
    former = [str(reply.properties["notice"])] if "notice" in reply.properties else []
    return msgspec.structs.replace(reply, properties={**reply.properties, "notice": " ".join([*former, *notices])})


def _refusal_message(reply: Reply, unread: list[PageQuality], *, ocr: bool) -> str:
    usual = (trust.PICTURES_ONLY, trust.NOTHING_RECOGNISED)
    reason = next((reason for quality in unread for reason in quality.reasons if reason not in usual), "")
    if any(quality.recognised for quality in reply.qualities):
        return reason or _NOT_RECOGNISED
    if reason:
        advice = f" Retry it, or ingest it again, {_WITH_OCR}, which reads the pages as people see them."
        return f"The text of the PDF cannot be read. {reason}{'' if ocr else advice}"
    return _BLANK_PAGES if ocr else _ONLY_PICTURES


def _unread_notice(unread: list[PageQuality], *, ocr: bool) -> str:
    numbers = ", ".join(str(quality.page) for quality in unread[:_MAX_NAMED_PAGES])
    further = f" and {len(unread) - _MAX_NAMED_PAGES:,} more" if len(unread) > _MAX_NAMED_PAGES else ""
    reasons = " ".join(dict.fromkeys(quality.reasons[0] for quality in unread))
    advice = "" if ocr else f" Ingest the file again {_WITH_OCR} to read them."
    return f"Not read: pages ({len(unread):,}): {numbers}{further}. {reasons}{advice}"
