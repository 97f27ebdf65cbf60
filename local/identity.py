"""Identity of the embedded PostgreSQL: it refuses root, so root starts it as another user."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from local.errors import LocalError

_UNMAPPED = 65534


@dataclass(frozen=True, slots=True)
class Identity:
    """Way to start a program as the owner of the data: a command before it, or another user and group."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    def own(self, path: Path) -> None:
        """Give a file or folder, with all that is in it, to this user."""
        if self.user is None or self.group is None:
            return
        os.chown(path, self.user, self.group)
        for entry in path.rglob("*") if path.is_dir() else ():
            os.chown(entry, self.user, self.group, follow_symlinks=False)


def choose(home: Path, program: Path) -> Identity:
    """Ourselves; as root a user namespace of our own, else an existing user who can reach both folders."""
    if os.geteuid() != 0:
        return Identity()
    owner = _owner(home / "postgres")
    if not owner and (prefix := _user_namespace()) and not (_closed_folder(home, 0) or _closed_folder(program, 0)):
        return Identity(prefix=prefix)
    reasons = []
    for user, group in [owner] if owner else _accounts(home):
        closed = _closed_folder(home.parent, user) or _closed_folder(program, user)
        if closed is None:
            home.chmod(0o711)
            return Identity(user=user, group=group)
        reasons.append(f"user {user} may not enter {closed}")
    raise LocalError(
        "The embedded Postgres does not run as root, and no way around was found: user namespaces are not allowed, "
        f"and {'; '.join(reasons) or 'there is no other user'}. "
        "Run `retrieval` as an ordinary user, put the project and RETRIEVAL_HOME into a folder that others may enter, "
        "or set RETRIEVAL_DATABASE_URL to a PostgreSQL of your own."
    )


@functools.cache
def _user_namespace() -> tuple[str, ...]:
    program = shutil.which("unshare")
    if program is None:
        return ()
    prefix = (program, "--user", f"--map-user={_UNMAPPED}", f"--map-group={_UNMAPPED}")
    process = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=10, check=False)
    return prefix if process.returncode == 0 else ()


def _owner(data: Path) -> tuple[int, int] | None:
    """Owner of the data, unless it is root or there is none."""
    if not data.exists() or not (status := data.stat()).st_uid:
        return None
    return status.st_uid, status.st_gid


def _accounts(home: Path) -> list[tuple[int, int]]:
    """Accounts that may own the data: the owner of the folder around the home, then postgres, then nobody."""
    accounts = pwd.getpwall()
    around = home.parent.stat().st_uid
    chosen = [a for a in accounts if a.pw_uid == around != 0]
    chosen += [a for name in ("postgres", "nobody") for a in accounts if a.pw_name == name]
    return [(account.pw_uid, account.pw_gid) for account in chosen]


def _closed_folder(path: Path, uid: int) -> Path | None:
    """The first folder on the way to `path`, itself included, that this user may not enter without special rights."""
    folder = path if path.is_dir() else path.parent
    for step in reversed((folder, *folder.parents)):
        status = step.stat()
        bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & bit:
            return step
    return None
