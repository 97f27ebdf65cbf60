"""Sign-in file of the admin app: private, complete, and the only file with its secrets."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import SecretStr, ValidationError

from local import LocalError, environment, roles
from retrieval.settings import Settings

ISSUER = "https://login.example.com/realms/staff"
SECRET = 'canary "client" \\ secret'


def settings(home, **overrides):
    common = {"oidc_issuer": ISSUER, "oidc_client_id": "app", "oidc_client_secret": SecretStr(SECRET)}
    return Settings(home=home, ui_port=8501, **(common | overrides))


def test_the_app_finds_its_provider_in_a_private_file(tmp_path):
    configured = settings(tmp_path, ui_public_url="https://admin.example.com/")
    environment.write_sign_in(configured, "http://127.0.0.1:8501")
    secrets_file = environment.sign_in_file(configured)
    auth = tomllib.loads(secrets_file.read_text())["auth"]
    assert secrets_file.stat().st_mode & 0o777 == 0o600
    assert auth["redirect_uri"] == "https://admin.example.com/oauth2callback"
    assert auth["server_metadata_url"] == f"{ISSUER}/.well-known/openid-configuration"
    assert (auth["client_id"], auth["client_secret"], auth["expose_tokens"]) == ("app", SECRET, ["id"])
    assert auth["client_kwargs"] == {"scope": "openid email profile"}
    assert len(auth["cookie_secret"]) >= 32
    environment.write_sign_in(configured, "http://127.0.0.1:8501")
    assert tomllib.loads(secrets_file.read_text())["auth"] == auth, "people stay signed in over a restart"
    assert f"--secrets.files={secrets_file}" in roles.list_commands(configured)["ui"]


def test_no_role_gets_the_secrets_by_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_OIDC_CLIENT_SECRET", SECRET)
    cookie = tmp_path / "canary-cookie"
    cookie.write_text("c" * 40)
    monkeypatch.setenv("RETRIEVAL_OIDC_COOKIE_SECRET_FILE", str(cookie))
    resolved = environment.ResolvedAddresses("postgresql://x/y", "1:key", "http://127.0.0.1:1/api")
    for role in environment.ROLE_NEEDS:
        variables = environment.build_variables(role, settings(tmp_path), resolved)
        assert SECRET not in variables.values()
        assert str(cookie) not in variables.values()
    assert not {SECRET, str(cookie)} & set(environment.build_ui(settings(tmp_path), "http://127.0.0.1:1").values())


def test_a_client_without_a_secret_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(LocalError, match="RETRIEVAL_OIDC_CLIENT_SECRET"):
        environment.write_sign_in(settings(tmp_path, oidc_client_secret=None), "http://127.0.0.1:8501")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("oidc_issuer", "http://login.example.com", "not an https URL"),
        ("oidc_issuer", "https://login.example.com/?a=b", "not an https URL"),
        ("oidc_cookie_secret", "short", "shorter than 32"),
        ("oidc_client_id", "", "RETRIEVAL_OIDC_AUDIENCE"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path, name, value, problem):
    with pytest.raises(ValidationError, match=problem):
        Settings(home=tmp_path, **({"oidc_issuer": ISSUER, "oidc_client_id": "app"} | {name: value}))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, {"app"}),
        ({"oidc_audience": ["api"]}, {"api", "app"}),
        ({"oidc_audience": ["api"], "oidc_ui_token": "access"}, {"api"}),
    ],
)
def test_what_the_app_sends_is_for_an_audience_that_is_accepted(tmp_path, overrides, expected):
    """An ID token names the app's client, whatever other audiences there are."""
    assert settings(tmp_path, **overrides).oidc_audiences == expected
