"""Keys of stored files, all made here: characters that every file store takes, no path traversal.

ns_…/<tenant, or _ without one>/doc_…/<generation>/raw        a document's file as it came
                                                  /parsed.md  the text that was read from it
                                                  /members/3  a file that was packed into it
ns_…/<tenant, or _>/up_…/raw                                  an upload, until it is accepted and after
"""

from __future__ import annotations

import re

from retrieval.errors import Fatal
from retrieval.ports import Scope

RAW = "raw"
PARSED = "parsed.md"
_KEY = re.compile(r"(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)*")


def of_document(scope: Scope, document_id: str, generation: int, name: str) -> str:
    """Return the key of a file of one generation of a document. `name`: `RAW`, `PARSED` or `member(…)`."""
    return f"{_root(scope)}/{document_id}/{generation}/{name}"


def of_tenant(tenant: str) -> str:
    """The name of a tenant's folder within a namespace's."""
    return tenant or "_"


def folder_key(scope: Scope, document_id: str = "") -> str:
    """Return the key prefix of all files of a document, or of the whole scope."""
    return f"{_root(scope)}/{document_id}/" if document_id else f"{_root(scope)}/"


def of_upload(scope: Scope, upload_id: str) -> str:
    """Return the key of an uploaded file that is not accepted yet."""
    return f"{_root(scope)}/{upload_id}/{RAW}"


def upload_id(key: str) -> str:
    """Return the id of the upload that has this key."""
    return key.rsplit("/", 2)[1]


def member_name(number: int) -> str:
    """The name of a file that was packed into a document."""
    return f"members/{number}"


def check_key(key: str) -> str:
    """The key itself; Fatal for one that no file store takes."""
    if not _KEY.fullmatch(key):
        raise Fatal("A file key may hold only letters, digits, hyphens, underscores and dots between slashes.")
    return key


def _root(scope: Scope) -> str:
    return f"{scope.namespace}/{of_tenant(scope.tenant)}"
