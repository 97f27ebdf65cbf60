"""Every command refuses with one sentence and an exit code, without traceback or secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import cli
from retrieval import settings

COMMANDS = [
    *("up", "up --detach", "down", "status", "env", "ready api", "demo", "prove", "migrate", "migrate --check"),
    *("register", "fsck", "fsck --repair", "rotate-secrets", "mcp"),
    *("api", "worker", "dispatcher", "prefect", "ui", "metrics"),
    *("key list", "key create --name k", "key revoke key_1", "org list", "org create o", "org update org_1", "org set"),
    *("tenant list", "tenant create t", "tenant delete t"),
    *("backup FOLDER/b", "restore FOLDER/b", "export ns FOLDER/e.tar", "import FOLDER/none.tar"),
    *("search hello", "ingest FOLDER/file", "retry ijr_1", "runs", "documents", "documents delete d --yes"),
    *("namespaces", "namespaces create n", "namespaces delete n --yes", "eval FOLDER/file"),
    *("source check FOLDER/file", "apply -f FOLDER/file"),
]
# For the second and further wrong values of a setting.
FEW_COMMANDS = ("up", "api", "key list", "search hello")
PASSWORD = "s3cr3t"
MALFORMED = {
    "mysql://bob:s3cr3t@db/x": "the scheme mysql:// is not PostgreSQL's: write postgresql://user:password@host/data",
    "postgresq://bob:s3cr3t@db/x": "the scheme postgresq:// is not PostgreSQL's",
    "postgresql://bob:s3cr3t x@db/x": "malformed: write postgresql://user:password@host/database",
    "postgresql://bob:s3cr3t/x@db/x": "malformed",
    "postgresql://bob:x@s3cr3t@db/x": "malformed",
    "postgresql://bob:s3cr3t%zz@db/x": "malformed",
    "bob:s3cr3t@db/x": "not the ",
}


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Isolate settings and prevent commands from replacing this process."""
    for name in list(os.environ):
        if name.startswith(("RETRIEVAL_", "PREFECT_")):
            monkeypatch.delenv(name)

    def refuse(*_: object) -> None:
        raise AssertionError("the role was started")

    monkeypatch.setattr(os, "execve", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    mask = os.umask(0o022)
    settings.load_settings.cache_clear()
    yield
    settings.load_settings.cache_clear()
    os.umask(mask)


def _refuse(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a failing command and return its message."""
    code = cli.main(command.replace("FOLDER", str(folder)).split())
    settings.load_settings.cache_clear()
    printed = capsys.readouterr()
    assert code in (1, 2, 3), (command, code, printed)
    assert PASSWORD not in printed.out + printed.err, command
    assert "Traceback" not in printed.err, command
    assert len((printed.err or printed.out).splitlines()) == 1 or command == "demo", printed.err  # it names its logs
    return printed.err or printed.out


def test_every_command_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    names = set(re.findall(r"^    ([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    # The script of a shell needs no service.
    assert names == {command.split()[0] for command in COMMANDS} | {"completion"}


@pytest.mark.parametrize("home", ["/proc/x", "FOLDER/file", "FOLDER/file/below"])
def test_a_home_that_cannot_be_one_is_named(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = home.replace("FOLDER", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_HOME", home)
    for command in COMMANDS if home.endswith("/file") else FEW_COMMANDS:
        if command in ("prove", "down"):  # the first has a home of its own, the second has nothing to stop
            continue
        refusal = _refuse(command, tmp_path, capsys)
        if command in ("up", "demo", "key list", "search hello") and "file" in home:
            assert home in refusal, command
            assert "RETRIEVAL_HOME" in refusal, command


@pytest.mark.parametrize("variable", ["RETRIEVAL_DATABASE_URL", "RETRIEVAL_PREFECT_DATABASE_URL"])
@pytest.mark.parametrize(("url", "sentence"), MALFORMED.items())
def test_a_malformed_database_url_is_refused_without_its_password(
    variable: str,
    url: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, url)
    for command in COMMANDS if url.startswith("mysql") else FEW_COMMANDS:
        refusal = _refuse(command, tmp_path, capsys)
        assert variable in refusal, command
        assert sentence in refusal, command
    assert not (tmp_path / "home").exists(), "something was started"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:s3cr3t@db/x",
        "postgres://bob:p%40ss@db:5433/x?sslmode=require",
        "postgresql://bob@a:5432,b:5433/x",
        "host=/run/postgresql dbname=x",
        "postgresql:///x?host=/run/postgresql",
    ],
)
def test_addresses_of_libpq_are_taken(url: str) -> None:
    assert settings.Settings(database_url=url).database_url is not None


@pytest.mark.parametrize("command", ["key list", "migrate", "migrate --check", "export ns FOLDER/e.tar"])
def test_a_database_that_is_away_is_one_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://bob:s3cr3t@127.0.0.1:1/x")
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "k1:" + "A" * 43 + "=")
    assert "database" in _refuse(command, tmp_path, capsys)


def test_a_role_whose_database_is_away_starts_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://bob:s3cr3t@127.0.0.1:1/x")
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "k1:" + "A" * 43 + "=")
    monkeypatch.setenv("RETRIEVAL_API_PORT", "0")
    with pytest.raises(AssertionError, match="the role was started"):
        cli.main(["api"])
    assert "the database does not answer yet" in capsys.readouterr().err
