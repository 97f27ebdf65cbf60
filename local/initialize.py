"""Run once at every start, as a program of its own: migrations, then the first organization, namespace and key.

Prints JSON: organizationId, namespaceId, apiKey.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

from local import instance, migration
from local.environment import plain, secret_key
from local.errors import REFUSED, LocalError
from retrieval import settings
from retrieval.accounts import api_keys, bootstrap
from retrieval.accounts.bootstrap import Bootstrap
from retrieval.database.database import Database
from retrieval.readiness import files_folder
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, hash_api_key


def main() -> None:
    chosen = settings.load()
    url = plain(chosen.database_url)
    if url is None:
        _refuse("RETRIEVAL_DATABASE_URL is not set.")
    try:
        migration.run(url)
        migration.check_language(url, chosen.keyword_language)
    except LocalError as error:
        _refuse(str(error))
    db, ring = Database(url, size=2), KeyRing.parse(secret_key(chosen))
    try:
        if reason := files_folder.claim(db, chosen):
            _refuse(reason)
        installation = bootstrap.ensure(db, ring)
        key = _working_key(db, ring, chosen.home, installation)
    finally:
        db.close()
    print(
        json.dumps(
            {"organizationId": installation.organization_id, "namespaceId": installation.namespace_id, "apiKey": key}
        )
    )


def _refuse(reason: str) -> NoReturn:
    print(reason, file=sys.stderr)
    raise SystemExit(REFUSED)


def _working_key(db: Database, ring: KeyRing, home: Path, made: Bootstrap) -> str:
    """The key just made, else the one that service.json kept, else, if that is lost or ended, a new one."""
    key = made.api_key or instance.service(home).get("apiKey")
    if isinstance(key, str):
        hashed = hash_api_key(key, pepper=secrets.server_secret(db, ring, secrets.PEPPER))
        statement = "select id from api_keys where hash = %(hash)s and organization_id = %(id)s and revoked_at is null"
        if db.row(statement, {"hash": hashed, "id": made.organization_id}):
            return key
    return api_keys.create(db, ring, made.organization_id, "default").api_key


if __name__ == "__main__":
    main()
