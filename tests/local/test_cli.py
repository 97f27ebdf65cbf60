"""`retrieval` command: messages before the start and lookup of the running instance."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from local import LocalError, cli, environment, health, instance
from local.environment import ResolvedAddresses
from local.instance import InstanceRecord, RoleRecord
from local.processes import Process
from retrieval import settings
from retrieval.settings import Settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a home without an instance and restore changed settings afterwards."""
    for name in list(os.environ):
        if name.startswith(("RETRIEVAL_", "PREFECT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    settings.load_settings.cache_clear()
    (tmp_path / "home").mkdir()
    mask = os.umask(0o022)
    yield tmp_path / "home"
    os.umask(mask)
    settings.load_settings.cache_clear()


def _mine(**fields: object) -> InstanceRecord:
    me = Process.from_pid(os.getpid())
    assert me is not None
    return InstanceRecord(me.pid, me.started, "token", **fields)


def test_a_taken_port_is_refused_with_the_setting_to_change(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setenv("RETRIEVAL_API_PORT", str(port))
        monkeypatch.setenv("RETRIEVAL_PREFECT_PORT", "0")
        monkeypatch.setenv("RETRIEVAL_UI_PORT", "0")
        assert cli.main(["up"]) == 1
    assert (
        capsys.readouterr().err == f"retrieval: Port {port} on 127.0.0.1 is taken by another program: "
        "set RETRIEVAL_API_PORT to another port, or to 0 for any free one.\n"
    )
    assert not (home / "postgres").exists(), "something was started"


def test_a_default_port_that_is_taken_gives_way_to_the_next() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        moved = instance.settle_ports({"A": ("127.0.0.1", port)}, movable=["A"])["A"]
    assert port < moved <= port + 20


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "RETRIEVAL_WROKER_LIMIT",
            "is not a setting of this version and is ignored. Did you mean RETRIEVAL_WORKER_LIMIT?",
        ),
        (
            "retrieval_api_prot",
            "RETRIEVAL_API_PROT is not a setting of this version and is ignored. Did you mean RETRIEVAL_API_PORT?",
        ),
        ("RETRIEVAL_COLOUR", "RETRIEVAL_COLOUR is not a setting of this version and is ignored."),
        ("RETRIEVAL_API_PORT_FILE", "only secrets are read from files. Set RETRIEVAL_API_PORT itself."),
    ],
)
def test_what_looks_like_a_setting_and_is_none_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, warning: str
) -> None:
    monkeypatch.setenv("RETRIEVAL_METRICS_TOKEN", "known")
    monkeypatch.setenv(name, "3")
    assert cli.main(["api"]) == 1, "there is no database"
    stderr = capsys.readouterr().err
    assert warning in stderr
    assert stderr.count("is not a setting") + stderr.count("is ignored: ") == 1
    assert cli.main(["status"]) == 3
    assert warning in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ("serach word", "there is no command serach. Did you mean `search`?"),
        ("ingets file", "Did you mean `ingest`?"),
        ("up --detahc", "there is no option --detahc. Did you mean `--detach`?"),
        ("key lst", "Did you mean `list`?"),
        ("documents delte x", "Did you mean `delete`?"),
        ("search word --topk 4", "Did you mean `--top-k`?"),
        (
            "ready apii",
            "there is no choice apii. Did you mean `api`? Choose from api, dispatcher, worker, prefect, ui.",
        ),
        ("restart", "there is no command restart.\n"),
    ],
)
def test_a_mistyped_command_or_option_is_answered_by_the_nearest(
    arguments: str, suggestion: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments.split())
    assert exit_.value.code == 2
    refusal = capsys.readouterr().err
    assert suggestion in refusal
    assert len(refusal.splitlines()) == 2


def test_another_database_without_a_key_does_not_start(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://somewhere/db")
    monkeypatch.setenv("RETRIEVAL_API_PORT", "0")
    monkeypatch.setenv("RETRIEVAL_PREFECT_PORT", "0")
    monkeypatch.setenv("RETRIEVAL_UI_PORT", "0")
    assert cli.main(["up"]) == 1
    message = capsys.readouterr().err
    assert "RETRIEVAL_SECRET_KEY is not" in message
    assert "b64encode" in message
    assert not (home / "secret.key").exists()


@pytest.mark.parametrize("role", ["api", "worker", "dispatcher", "migrate"])
def test_a_role_alone_says_what_it_misses(role: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([role]) == 1
    message = capsys.readouterr().err
    assert "retrieval up" in message
    assert "RETRIEVAL_DATABASE_URL" in message


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"one\ntwo\n", None])
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("secret.key", "from a backup"), ("postgres.password", "from a backup"), ("prefect.login", "Delete it")],
)
def test_a_damaged_secret_of_the_home_is_a_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, remedy: str, content: bytes | None
) -> None:
    # Full disks and restores leave files empty, binary, multi-line, or as folders.
    for file_name in ("postgres.password", "postgres.socket"):
        (home / file_name).write_text("/run/x")
    instance.save_record(home, _mine(addresses={"prefect": "http://127.0.0.1:4444/api"}, roles=[RoleRecord("prefect")]))
    (home / name).unlink(missing_ok=True)
    (home / name).mkdir() if content is None else (home / name).write_bytes(content)
    assert cli.main(["key", "list"]) == 1
    [message] = capsys.readouterr().err.splitlines()
    assert message.startswith(f"retrieval: {home / name} is damaged: it does not hold one line of text. ")
    assert remedy in message


def test_a_role_alone_signs_in_to_the_prefect_of_its_instance_and_to_no_other(home: Path) -> None:
    (home / "postgres.password").write_text("p/w")
    (home / "postgres.socket").write_text("/run/socket")
    login = environment.prefect_login(Settings(home=home))
    at = {"prefect": "http://127.0.0.1:4444/api"}
    instance.save_record(home, _mine(addresses=at, roles=[RoleRecord("prefect")]))
    assert environment.resolve_addresses(Settings(home=home)).prefect_login == login
    instance.save_record(home, _mine(addresses=at))
    assert environment.resolve_addresses(Settings(home=home)).prefect_login is None
    elsewhere = Settings(home=home, prefect_api_url="http://prefect.internal:4200/api")
    assert environment.resolve_addresses(elsewhere).prefect_login is None


def test_the_login_to_prefect_is_made_once_and_private(home: Path) -> None:
    first = environment.prefect_login(Settings(home=home))
    assert first is not None
    assert first.startswith("retrieval:")
    assert len(first) > 40
    assert environment.prefect_login(Settings(home=home)) == first
    assert stat.S_IMODE((home / "prefect.login").stat().st_mode) == 0o600


_RESOLVED = ResolvedAddresses("postgresql://x", "1:k", "http://127.0.0.1:1/api", "retrieval:login")


def test_the_roles_never_talk_to_a_prefect_of_the_users(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "https://api.prefect.cloud/api/x")
    monkeypatch.setenv("PREFECT_API_KEY", "pnu_mine")
    variables = environment.build_variables("worker", Settings(home=home), _RESOLVED)
    assert variables["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
    assert variables["PREFECT_API_AUTH_STRING"] == "retrieval:login"
    assert "PREFECT_API_KEY" not in variables
    assert variables["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


@pytest.mark.parametrize(
    ("url", "variables", "asks"),
    [
        (None, {}, "false"),
        (None, {"PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true"}, None),
        (None, {"PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "true"}, "true"),
        ("https://prefect.internal/api", {}, None),
    ],
)
def test_clients_ask_for_tokens_only_where_prefects_server_may_require_them(
    home: Path, url: str | None, variables: dict[str, str], asks: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    worker = environment.build_variables("worker", Settings(home=home, prefect_api_url=url), _RESOLVED)
    assert worker.get("PREFECT_CLIENT_CSRF_SUPPORT_ENABLED") == asks
    assert worker.get("PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED") == (None if url else "false")


@pytest.mark.parametrize("name", ["PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"])
def test_a_prefect_of_ones_own_gets_the_login_that_was_set(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "mine")
    settings = Settings(home=home, prefect_api_url="http://prefect.internal:4200/api")
    resolved = ResolvedAddresses("postgresql://x", "1:k", settings.prefect_api_url, environment.prefect_login(settings))
    for role, needs in environment.ROLE_NEEDS.items():
        if role != "prefect":
            assert environment.build_variables(role, settings, resolved).get(name) == (
                "mine" if needs.prefect else None
            ), role


def test_every_setting_with_a_secret_reaches_only_roles_that_need_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A new secret reaches no role until `NEEDS` lists it.
    secret_fields = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert secret_fields >= {"database_url", "secret_key", "prefect_database_url"}
    for name in (*secret_fields, "log_level"):
        monkeypatch.setenv(f"RETRIEVAL_{name.upper()}", f"canary-{name}")
        monkeypatch.setenv(f"RETRIEVAL_{name.upper()}_FILE", "canary-file")
    monkeypatch.delenv("RETRIEVAL_LOG_LEVEL_FILE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-aws")
    resolved = ResolvedAddresses(
        "canary-database_url", "canary-secret_key", "http://127.0.0.1:1/api", "canary-prefect_login"
    )
    for role, needs in environment.ROLE_NEEDS.items():
        settings = Settings.model_construct(
            home=home,
            prefect_api_url=None,
            metrics_token=SecretStr("canary-metrics_token"),
            prefect_api_key=SecretStr("canary-prefect_api_key"),
            egress_proxy=SecretStr("canary-egress_proxy"),
            default_namespace=SecretStr("canary-default_namespace"),
        )
        values = environment.build_variables(role, settings, resolved).values()
        canaries = {value.removeprefix("canary-") for value in values if "canary" in value}
        allowed = (
            needs.secrets
            | ({"prefect_login"} if needs.prefect else set())
            | ({"log_level"} if needs.settings else set())
        )
        assert canaries == allowed, role


@pytest.mark.parametrize("url", ["postgresql://u:canary@h/prefect?sslmode=always", "sqlite+aiosqlite:///canary.db"])
def test_a_database_that_prefect_cannot_use_is_a_sentence(home: Path, url: str) -> None:
    with pytest.raises(LocalError, match="RETRIEVAL_PREFECT_DATABASE_URL") as refused:
        environment.build_prefect(Settings(home=home), _RESOLVED, [], url)
    assert "canary" not in str(refused.value)


def test_a_second_supervisor_does_not_get_the_home(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = instance.lock_home(home)
    assert lock is not None
    try:
        assert cli.main(["up"]) == 1
    finally:
        os.close(lock)
    assert "already" in capsys.readouterr().err


def test_status_tells_a_role_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    me = Process.from_pid(os.getpid())
    assert me is not None
    running_role = RoleRecord("api", "up", me.pid, me.started, 1.0, 0, "http://127.0.0.1:1")
    instance.save_record(home, _mine(phase="ready", roles=[running_role, RoleRecord("migrate", "done")]))
    assert health.print_status(Namespace(json=True), Settings(home=home)) == 0
    assert json.loads(capsys.readouterr().out)["roles"][0]["state"] == "up"
    ended_role = RoleRecord("worker", "up", me.pid, me.started + 1, 1.0)
    instance.save_record(home, _mine(phase="ready", roles=[running_role, ended_role]))
    assert health.print_status(Namespace(json=False), Settings(home=home)) == 3
    assert "stopped" in capsys.readouterr().out


def test_service_json_is_private_and_keeps_the_key_over_a_stop(home: Path) -> None:
    instance.publish_service(home, {"apiKey": "rtr_x", "api": "http://127.0.0.1:1"})
    assert stat.S_IMODE((home / "service.json").stat().st_mode) == 0o600
    instance.clear_home(home)
    assert not (home / "service.json").exists()
    assert instance.read_service(home)["apiKey"] == "rtr_x"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["register", "--notify", "nonsense"], 2, "--notify must be a URL that begins with http:// or https://."),
        (["search", "x", "--url", "ftp://a", "--key", "k"], 2, "ftp://a is not a URL of the API: begin it with http"),
        (["source", "check", "/missing.yaml"], 1, "missing.yaml: No such file or directory\n"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert cli.main(arguments) == code
    assert capsys.readouterr().err.startswith(f"retrieval: {message}")


def test_a_server_that_is_down_is_named_with_the_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("retrieval_client.requests.random.uniform", lambda *_: 0.0)
    assert cli.main(["search", "x", "--url", "http://127.0.0.1:9", "--key", "k"]) == 1
    assert capsys.readouterr().err == (
        "retrieval: http://127.0.0.1:9 does not answer (nothing listens there): start it with `retrieval up`, "
        "or check --url and RETRIEVAL_API_URL.\n"
    )


def _complete(script: Path, words: str) -> list[str]:
    """Return what bash offers for the last of `words`."""
    program = f"""
source {script}
COMP_WORDS=({words} ""); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
function=$(complete -p retrieval | grep -oP '(?<=-F )\\S+')
$function retrieval "" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.split()


def test_bash_completes_commands_and_options(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = home / "retrieval.bash"
    script.write_text(capsys.readouterr().out)
    assert {"up", "search", "ingest", "key", "completion"} <= set(_complete(script, "retrieval"))
    assert {"create", "list", "revoke"} <= set(_complete(script, "retrieval key"))
