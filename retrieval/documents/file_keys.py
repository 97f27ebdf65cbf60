"""Build the keys of stored files from characters every file store accepts, without path traversal.

ns_…/<tenant, or _ without one>/doc_…/<generation>/raw        original file of a document
                                                  /parsed.md  parsed text
                                                  /members/3  file packed into the document
ns_…/<tenant, or _>/up_…/raw                                  upload, before and after its acceptance
"""

from __future__ import annotations

import re

from retrieval.errors import Fatal
from retrieval.ports import Scope

RAW_NAME = "raw"
PARSED_NAME = "parsed.md"
_KEY_PATTERN = re.compile(r"(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)*")


def document_key(scope: Scope, document_id: str, generation: int, name: str) -> str:
    """Return the key of a file of a document generation. `name`: `RAW_NAME`, `PARSED_NAME` or `member_name(…)`."""
    return generation_key(scope, document_id, generation) + name


def generation_key(scope: Scope, document_id: str, generation: int) -> str:
    """Return the key prefix of the files of a document generation."""
    return f"{_root(scope)}/{document_id}/{generation}/"


def tenant_folder(tenant: str) -> str:
    """Return the folder name of a tenant."""
    return tenant or "_"


def folder_key(scope: Scope, document_id: str = "") -> str:
    """Return the key prefix of a document, or of the whole scope."""
    return f"{_root(scope)}/{document_id}/" if document_id else f"{_root(scope)}/"


def upload_key(scope: Scope, upload_id: str) -> str:
    """Return the key of an uploaded file."""
    return f"{_root(scope)}/{upload_id}/{RAW_NAME}"


def upload_id(key: str) -> str:
    """Return the upload id of a key."""
    return key.rsplit("/", 2)[1]


def member_name(number: int) -> str:
    """Return the name of a packed file."""
    return f"members/{number}"


def check_key(key: str) -> str:
    """Return the key. Raises Fatal if a file store would reject it."""
    if not _KEY_PATTERN.fullmatch(key):
        raise Fatal("A file key may hold only letters, digits, hyphens, underscores and dots between slashes.")
    return key


def _root(scope: Scope) -> str:
    return f"{scope.namespace}/{tenant_folder(scope.tenant)}"
