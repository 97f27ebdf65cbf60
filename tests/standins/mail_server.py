"""Dovecot on loopback with empty mailboxes for every user with the password."""

from __future__ import annotations

import getpass
import grp
import imaplib
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.standins import secure
from tests.standins.file_servers import wait_for_port

PASSWORD = "canary-mail-password"
_CONFIG = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
auth_failure_delay = 0
first_valid_uid = 1
first_valid_gid = 0
mail_max_userip_connections = 50
mail_location = maildir:{folder}/mail/%u
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
}}
"""


class MailServer:
    """A server: `port` without TLS, `tls_port` with a self-signed certificate."""

    def __init__(self, folder: Path, port: int, tls_port: int) -> None:
        self.port, self.tls_port, self.certificate = port, tls_port, folder / "certificate.pem"

    def sign_in(self, user: str) -> imaplib.IMAP4:
        session = imaplib.IMAP4("127.0.0.1", self.port)
        session.login(user, PASSWORD)
        return session


@contextmanager
def serve_mail(folder: Path) -> Iterator[MailServer]:
    """Run Dovecot as the current user, or as nobody under root."""
    program = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin")
    assert program, "dovecot is not on this machine: .ci/run installs what this test needs"
    account = pwd.getpwnam("nobody" if getpass.getuser() == "root" else getpass.getuser())
    group = grp.getgrgid(account.pw_gid).gr_name
    secure.certify(folder / "certificate.pem", folder / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        server = MailServer(folder, first.getsockname()[1], second.getsockname()[1])
    for name in ("mail", "home"):
        (folder / name).mkdir()
        if os.getuid() == 0:
            os.chown(folder / name, account.pw_uid, account.pw_gid)
    values = {"uid": account.pw_uid, "gid": account.pw_gid, "user": account.pw_name, "group": group}
    text = _CONFIG.format(folder=folder, port=server.port, tls_port=server.tls_port, password=PASSWORD, **values)
    (folder / "dovecot.conf").write_text(text)
    with subprocess.Popen([program, "-F", "-c", folder / "dovecot.conf"]) as running:
        try:
            wait_for_port(server.port, folder / "log")
            yield server
        finally:
            running.terminate()
