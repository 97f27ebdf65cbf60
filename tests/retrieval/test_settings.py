"""`.env.example` has every setting once, with a description and the true default."""

import base64
import os
import re
from typing import get_args

import pytest

from local.setting_warnings import list_setting_warnings
from retrieval import settings
from retrieval.setting_values import WrongSetting
from retrieval.settings import PROJECT_ROOT, Settings

CANARY = base64.b64encode(b"c" * 32).decode()
EXAMPLE = PROJECT_ROOT / ".env.example"
LINE = re.compile(r"#(RETRIEVAL_[A-Z0-9_]+)=(.*)")


def example_settings():
    """Return name and default of every setting in the example, in order."""
    return [row.groups() for line in EXAMPLE.read_text().splitlines() if (row := LINE.fullmatch(line))]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in [name for name in os.environ if name.startswith("RETRIEVAL_")]:
        monkeypatch.delenv(name)


def test_the_shown_defaults_are_the_true_ones(tmp_path, monkeypatch):
    chosen = tmp_path / "all.env"
    chosen.write_text("\n".join(f"{name}={value}" for name, value in example_settings() if value))
    monkeypatch.chdir(PROJECT_ROOT)
    template_settings, default_settings = Settings(_env_file=chosen), Settings(_env_file=None)
    assert template_settings.model_copy(update={"home": template_settings.home.absolute()}) == default_settings
    empty = {name for name, value in example_settings() if value in ("", "[]")}
    assert empty == {
        f"RETRIEVAL_{field}".upper()
        for field in Settings.model_fields
        if getattr(default_settings, field) in (None, [])
    }


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch):
    chosen = tmp_path / "some.env"
    chosen.write_text("RETRIEVAL_API_PORT=1111\nRETRIEVAL_WORKER_LIMIT=3\n")
    monkeypatch.setenv("RETRIEVAL_API_PORT", "2222")
    settings = Settings(_env_file=chosen)
    assert (settings.api_port, settings.worker_limit) == (2222, 3)


def test_no_secret_is_shown_with_the_settings(monkeypatch):
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:" + CANARY)
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://user:canary@host/db")
    monkeypatch.setenv("RETRIEVAL_PREFECT_DATABASE_URL", "postgresql://user:canary@host/db")
    settings = Settings(_env_file=None)
    representation = repr(settings) + str(settings) + settings.model_dump_json()
    assert "canary" not in representation
    assert CANARY not in representation


RUBBISH = ["rubbish", '{"a": 5}', "1e999", "", "ä"]


def sentence():
    """Return the error message of `load`, or None."""
    settings.load_settings.cache_clear()
    try:
        settings.load_settings()
    except settings.WrongSetting as error:
        return error.sentence
    finally:
        settings.load_settings.cache_clear()
    return None


def test_rubbish_in_any_setting_is_a_sentence_that_names_it(monkeypatch, tmp_path):
    """Invalid values raise only WrongSetting, without the value in the message."""
    monkeypatch.chdir(tmp_path)
    for field in Settings.model_fields:
        name = f"RETRIEVAL_{field}".upper()
        for rubbish in RUBBISH:
            with monkeypatch.context() as patch:
                patch.setenv(name, rubbish)
                message = sentence() or f"A setting is wrong. {name}: "
            assert message.startswith(f"A setting is wrong. {name}: "), (field, rubbish, message)
            assert "rubbish" not in message
            assert "\n" not in message


NUMBERS = [
    name
    for name, field in Settings.model_fields.items()
    if {int, float} & ({*get_args(field.annotation)} or {field.annotation})
]


def test_a_number_that_counts_nothing_or_beyond_everything_is_refused(monkeypatch, tmp_path):
    # No numeric setting accepts negative, infinite or huge values.
    monkeypatch.chdir(tmp_path)
    for field in NUMBERS:
        name = f"RETRIEVAL_{field}".upper()
        for value in ("nan", "inf", "-1", str(10**20)):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                assert (sentence() or "").startswith(f"A setting is wrong. {name}: "), (field, value)


SECRETS = {
    "RETRIEVAL_SECRET_KEY": "1:" + CANARY,
    "RETRIEVAL_DATABASE_URL": "postgresql://user:canary@host/db",
    "RETRIEVAL_PREFECT_DATABASE_URL": "postgresql://user:canary@host/prefect",
    "RETRIEVAL_PREFECT_LOGIN": "retrieval:canary",
    "RETRIEVAL_PREFECT_API_KEY": "canary",
    "RETRIEVAL_METRICS_TOKEN": "canary",
    "RETRIEVAL_EGRESS_PROXY": "http://user:canary@proxy:3128",
    "RETRIEVAL_OIDC_CLIENT_SECRET": "canary",
    "RETRIEVAL_OIDC_COOKIE_SECRET": "canary" * 6,
    "RETRIEVAL_DEFAULT_NAMESPACE": '{"fileStorageConfig": "canary"}',
}


@pytest.mark.parametrize("name", [f"RETRIEVAL_{field}".upper() for field in settings.SECRET_FIELDS])
def test_a_secret_is_read_from_the_file_that_is_named(name, monkeypatch, tmp_path):
    (tmp_path / "mounted").write_text(SECRETS[name] + "\n")
    (tmp_path / "secret").symlink_to(tmp_path / "mounted")  # as Kubernetes mounts them
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))
    settings.load_settings.cache_clear()
    loaded = settings.load_settings()
    settings.load_settings.cache_clear()
    assert getattr(loaded, name.removeprefix("RETRIEVAL_").lower()).get_secret_value() == SECRETS[name]
    assert "canary" not in repr(loaded)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file"),
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"\xff\xfecanary", "the file is not UTF-8"),
        (b"canary\ncanary", "the file does not hold one line of text"),
        (b"canary\0", "the file does not hold one line of text"),
        (b"canary" * 20_000, "the file is larger than 65536 bytes"),
        ("folder", "not a regular file"),
    ],
)
def test_a_file_that_holds_no_secret_is_a_sentence_without_it(content, why, monkeypatch, tmp_path):
    file = tmp_path / "canary-in-the-path"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL_FILE", str(file))
    assert sentence() == f"A setting is wrong. RETRIEVAL_DATABASE_URL_FILE: {why}"


def test_a_secret_and_its_file_are_not_both_given(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("1:" + CANARY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:" + CANARY)
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY_FILE", str(tmp_path / "key"))
    assert sentence() == "A setting is wrong. RETRIEVAL_SECRET_KEY_FILE: RETRIEVAL_SECRET_KEY is set as well"
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "")  # an empty one counts as absent
    assert sentence() is None
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY_FILE", "1:" + CANARY)  # the key itself, by mistake
    assert sentence() == "A setting is wrong. RETRIEVAL_SECRET_KEY_FILE: not the absolute path of a file"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("KEYWORD_LANGUAGE", ["English", "", "english; drop table chunks", "a.b.c"]),
        ("OWN_ADDRESSES", ["http://db:5432", "db:99999", "db:x", "db/x", "user@db:1", "fd00::1"]),
        (
            "PUBLIC_URL",
            ["retrieval.example.com", "https://", "https://x/?a=b", "https://u:p@x", "file:///x", "https://x:0"],
        ),
        ("UI_PUBLIC_URL", ["admin.example.com"]),
        ("UI_API_URL", ["api:8000"]),
        ("PREFECT_API_URL", ["prefect:4200/api"]),
        ("ENDPOINTS", ['{"S3": {"base_url": "minio:9000"}}']),
        ("OAUTH_ENDPOINTS", ['{"BOX": {"token": "box.example.com"}}']),
    ],
)
def test_what_leads_nowhere_is_refused_by_name(name, values, monkeypatch, tmp_path):
    # Such values failed only later, in a job run or a link.
    monkeypatch.chdir(tmp_path)
    for value in values:
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
        assert (sentence() or "").startswith(f"A setting is wrong. RETRIEVAL_{name}: "), value


CONFIG = """
api_port = 1111
worker_limit = 3
ocr_languages = ["eng", "deu"]
database_url_file = "{folder}/database_url"

[endpoints.S3]
base_url = "https://minio.internal:9000"

[default_namespace.embeddingModelConfig]
provider = "LOCAL"
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    path = tmp_path / "service.toml"
    path.write_text(CONFIG.format(folder=tmp_path))
    (tmp_path / "database_url").write_text("postgresql://reader:canary@db.internal/retrieval\n")
    monkeypatch.setenv("RETRIEVAL_CONFIG", str(path))
    return path


def test_a_toml_file_holds_settings_below_the_environment(config, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_API_PORT", "2222")
    settings = Settings(_env_file=None)
    assert (settings.api_port, settings.worker_limit, settings.ocr_languages) == (2222, 3, ["eng", "deu"])
    assert settings.endpoints["S3"].base_url == "https://minio.internal:9000"
    assert settings.database_url.get_secret_value() == "postgresql://reader:canary@db.internal/retrieval"
    assert settings.default_namespace.get_secret_value() == '{"embeddingModelConfig": {"provider": "LOCAL"}}'


def test_a_secret_of_the_environment_wins_over_one_of_the_toml_file(config, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://db.example.com/other")
    assert Settings(_env_file=None).database_url.get_secret_value() == "postgresql://db.example.com/other"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("api_port = = 3", "service.toml: not TOML, at line 1"),
        ('api_port = "canary"', "RETRIEVAL_API_PORT"),
        (b"\xff", "service.toml: not UTF-8"),
        ("x = " + "[" * 5000, "service.toml: not TOML"),
        ('database_url_file = ["/canary"]', "RETRIEVAL_DATABASE_URL_FILE: not the absolute path of a file"),
        ("Database_URL_file = 5", "RETRIEVAL_DATABASE_URL_FILE: not the absolute path of a file"),
        ("[default_namespace]\ncanary = 2026-01-01", "RETRIEVAL_DEFAULT_NAMESPACE: a date or time is no JSON"),
    ],
)
def test_a_wrong_toml_file_ends_the_start_with_its_place_and_without_its_values(config, text, sentence):
    config.write_bytes(text if isinstance(text, bytes) else text.encode())
    settings.load_settings.cache_clear()
    with pytest.raises(WrongSetting) as error:
        settings.load_settings()
    assert sentence in error.value.sentence
    assert "canary" not in error.value.sentence


def test_the_toml_file_is_warned_about_secrets_and_unknown_names(tmp_path):
    path = tmp_path / "retrieval.toml"
    path.write_text(
        'database_url = "postgresql://canary"\napi_prot = 1\nsecret_key_file = "/k"\nRETRIEVAL_HOME = "/h"\n'
    )
    warnings = list_setting_warnings({}, tmp_path / ".env", path)
    assert [warning.split(" is ")[0] for warning in warnings] == [
        "retrieval.toml: database_url",
        "retrieval.toml: api_prot",
        "retrieval.toml: RETRIEVAL_HOME",
    ]
    assert "Did you mean api_port?" in warnings[1]
    assert "Did you mean home?" in warnings[2]
    assert "canary" not in " ".join(warnings)
