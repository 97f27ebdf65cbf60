"""compose.yaml: hardening, health checks and valid settings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from local import cli
from retrieval.settings import PROJECT_ROOT, SECRET_FIELDS, Settings

COMPOSE = PROJECT_ROOT / "deploy" / "compose"
SERVICES = yaml.safe_load((PROJECT_ROOT / "compose.yaml").read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "retrieval"}
ONCE = {"migrate", "register", "objects-owner"}
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_may_more_than_it_needs(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert (service["user"] != "0:0") or name == "objects-owner"
    assert "privileged" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_asked_for_its_health_and_waited_for(name):
    service = SERVICES[name]
    has_probe = "test" in service.get("healthcheck", {}) or service["image"] == "retrieval-app"
    assert has_probe != (name in ONCE)
    for dependency, how in service.get("depends_on", {}).items():
        condition = "service_completed_successfully" if dependency in ONCE else "service_healthy"
        assert how["condition"] == condition, (name, dependency)


@pytest.mark.parametrize("name", OURS)
def test_roles_and_settings_are_those_of_the_service(name, capsys):
    (command,) = OURS[name]["command"]
    assert cli.make_parser().parse_args([command]).command == command
    setting_names = {f"RETRIEVAL_{field}".upper() for field in Settings.model_fields}
    files = {f"RETRIEVAL_{field}_FILE".upper() for field in SECRET_FIELDS}
    environment = OURS[name]["environment"]
    prefect_names = {name for name in environment if name.startswith("PREFECT_CLIENT_")}
    assert set(environment) - prefect_names <= setting_names | files
    mounted = {Path(environment[variable]).name for variable in files & set(environment)}
    assert mounted == set(OURS[name]["secrets"])


def test_there_are_two_apis_behind_the_proxy_and_only_it_and_prefect_are_reached_from_outside():
    config = (COMPOSE / "haproxy.cfg").read_text()
    backends = set(re.findall(r"^    server (\w+) (?:\w+):\d+", config, re.MULTILINE))
    assert backends == {"api1", "api2", "app"} <= set(SERVICES)
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"proxy", "prefect"}
    assert published["prefect"] == ["127.0.0.1:4200:4200"]
    address = SERVICES["proxy"]["networks"]["front"]["ipv4_address"]
    assert SERVICES["api1"]["environment"]["RETRIEVAL_TRUSTED_PROXIES"] == address


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compose")
    shutil.copy(COMPOSE / "secrets.sh", folder)
    for _ in range(2):
        subprocess.run([folder / "secrets.sh"], check=True, capture_output=True)
    return folder / "secrets"


def test_every_secret_is_made_once_and_can_be_used(secrets, monkeypatch):
    secret_files = yaml.safe_load((PROJECT_ROOT / "compose.yaml").read_text())["secrets"]
    assert {Path(entry["file"]).name for entry in secret_files.values()} <= {path.name for path in secrets.iterdir()}
    assert secrets.stat().st_mode & 0o077 == 0
    for field in ("database_url", "secret_key", "prefect_login", "prefect_database_url"):
        monkeypatch.setenv(f"RETRIEVAL_{field.upper()}_FILE", str(secrets / field))
    loaded = Settings(_env_file=None)
    password = (secrets / "postgres_password").read_text().strip()
    assert loaded.database_url.get_secret_value() == f"postgresql://retrieval:{password}@postgres/retrieval"
    assert json.loads((secrets / "s3.json").read_text())["identities"]


@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed; continuous integration installs it")
def test_haproxy_takes_its_configuration(secrets, tmp_path):
    config = (COMPOSE / "haproxy.cfg").read_text().replace("/run/secrets", str(secrets))
    (tmp_path / "haproxy.cfg").write_text(config)
    done = subprocess.run([HAPROXY, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_docker_compose_reads_it(tmp_path):
    # Version 1.29, which Debian has, knows no name at the top.
    text = (PROJECT_ROOT / "compose.yaml").read_text().replace("\nname: retrieval\n", "\n")
    (tmp_path / "compose.yaml").write_text(text)
    done = subprocess.run(
        ["docker-compose", "--file", tmp_path / "compose.yaml", "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
