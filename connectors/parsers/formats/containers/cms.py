"""Signed files (CMS, RFC 5652): the content of S/MIME messages and of .p7m files. Signatures are not verified."""

from __future__ import annotations

import base64
import re

from retrieval.errors import Skippable

_ARMOUR = re.compile(rb"-----BEGIN (?:PKCS7|CMS)-----\s+([A-Za-z0-9+/=\s]+?)-----END ")
ENCRYPTED = (
    "It is encrypted (S/MIME), and the service has no key. Decrypt it in the mail program, save it and upload that."
)
_NO_CONTENT = "It is a signature or a list of certificates and holds no content. Upload the file that was signed."
_DAMAGED = "The signed file is damaged and cannot be read. Save it again from the program that made it and upload that."


def content(data: bytes) -> bytes:
    """The content that was signed or compressed. Skippable if it is encrypted, missing or damaged."""
    from asn1crypto import cms

    if found := _ARMOUR.search(data):
        data = base64.b64decode(b"".join(found[1].split()))
    try:
        info = cms.ContentInfo.load(data)
        kind = info["content_type"].native
        if kind == "signed_data":
            held = info["content"]["encap_content_info"]["content"].native
        elif kind == "compressed_data":
            held = info["content"].decompressed
        else:
            held = info["content"].native if kind == "data" else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Skippable(_DAMAGED) from error
    if kind in ("enveloped_data", "authenticated_enveloped_data", "encrypted_data", "signed_and_enveloped_data"):
        raise Skippable(ENCRYPTED)
    if not isinstance(held, bytes) or not held:
        raise Skippable(_NO_CONTENT)
    return held
