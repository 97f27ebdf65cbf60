"""Identifiers: a prefix that says what it is, then 48 bits of time and 128 random bits, so ids sort by age."""

from __future__ import annotations

import base64
import os
import time

Prefix = str
_ALPHABET = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789abcdefghjkmnpqrstvwxyz")


def new_id(prefix: Prefix) -> str:
    """A fresh id such as `doc_06bq…`: 4 or 5 characters of prefix and 36 of lowercase Crockford base 32."""
    moment = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    return prefix + base64.b32encode(moment + os.urandom(16)).translate(_ALPHABET).rstrip(b"=").decode()


def organization_id() -> str:
    return new_id("org_")


def namespace_id() -> str:
    return new_id("ns_")


def document_id() -> str:
    return new_id("doc_")


def job_id() -> str:
    return new_id("job_")


def job_run_id() -> str:
    return new_id("ijr_")


def batch_id() -> str:
    return new_id("bat_")


def connection_id() -> str:
    return new_id("conn_")


def key_id() -> str:
    return new_id("key_")
