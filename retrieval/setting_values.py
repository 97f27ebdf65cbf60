"""Types of settings, secrets in files, and messages for unreadable values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from retrieval import principals
from retrieval.errors import ErrorCode, ServiceError


def _require_object(value: SecretStr | None) -> SecretStr | None:
    text = value.get_secret_value() if value else ""
    with suppress(ValueError):
        if not text or isinstance(json.loads(text), dict):
            return value if text else None
    raise ValueError("not the JSON object that is needed here")


def _join_table(value: object) -> object:
    try:
        return json.dumps(value) if isinstance(value, Mapping) else value
    except TypeError:
        raise ValueError("a date or time is no JSON: write it as a string") from None


# JSON, or a table of TOML.
NamespaceDefaults = Annotated[SecretStr | None, BeforeValidator(_join_table), AfterValidator(_require_object)]


def split_list(value: object) -> object:
    """Split a list like `10.0.0.0/8, 192.168.7.0/24`, or a JSON list."""
    return [part for part in re.split(r'[\s,"\[\]]+', value) if part] if isinstance(value, str) else value


def _is_url(url: str | None) -> str | None:
    if url and not _leads_somewhere(url):
        raise ValueError("not an http or https URL without a query, such as https://name.example.com/path")
    return url


def _leads_somewhere(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(re.fullmatch(r"https?://[^\s?#@\\]+", url) and parts.hostname and parts.port != 0)
    except ValueError:
        return False


# Without a login; an empty URL counts as absent.
Url = Annotated[str | None, AfterValidator(_is_url)]


def _is_origin(origin: str) -> str:
    if origin != "*" and not re.fullmatch(
        r"https?://(\*\.)?[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?", origin
    ):
        raise ValueError("not an origin, such as https://app.example.com or https://*.example.com, and not *")
    return origin


# Scheme, host and port of a website; `*.` matches any subdomain, `*` every website.
Origin = Annotated[str, AfterValidator(_is_origin)]


def _is_place(place: str) -> str:
    if "//" in place or not _leads_somewhere(f"http://{place}") or "/" in place:
        raise ValueError("not host:port, such as db.internal:5432 or [fd00::1]:5432")
    return place


def _places(value: object) -> object:
    """Split at commas, or parse JSON; brackets belong to addresses."""
    if not isinstance(value, str):
        return value
    with suppress(json.JSONDecodeError):
        return json.loads(value)
    return [part for part in re.split(r"[\s,]+", value) if part]


def _split_paths(value: object) -> object:
    """Split at commas, since paths may have spaces, or parse JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            raise ValueError('neither paths with commas nor a list of JSON, such as ["/srv/files"]') from None
    return [part.strip() for part in value.split(",") if part.strip()]


# Words, comma-separated or a JSON list.
Names = Annotated[list[str], NoDecode, BeforeValidator(split_list)]
Networks = Annotated[list[IPv4Network | IPv6Network], NoDecode, BeforeValidator(split_list)]
Origins = Annotated[list[Origin], NoDecode, BeforeValidator(split_list)]


def _is_folder(entry: str) -> str:
    if not _FOLDER_PATTERN.fullmatch(entry):
        raise ValueError("neither a folder, such as /srv/files, nor an organization's, such as org_…=/srv/files")
    return entry


_FOLDER_PATTERN = re.compile(r"(?:(org_[a-z0-9]+)=)?(/.*)", re.DOTALL)


def list_folders(entries: Iterable[str], organization: str) -> list[str]:
    """List the folders of an organization among entries of `Folders`, including entries for all organizations."""
    matches = [_FOLDER_PATTERN.fullmatch(entry) for entry in entries]
    return [match[2] for match in matches if match is not None and match[1] in {None, organization}]


# Folders, each for all organizations or `org_…=` one of them, comma-separated or a JSON list.
Folders = Annotated[
    list[Annotated[str, BeforeValidator(str), AfterValidator(_is_folder)]], NoDecode, BeforeValidator(_split_paths)
]
# Hosts with ports.
Places = Annotated[list[Annotated[str, AfterValidator(_is_place)]], NoDecode, BeforeValidator(_places)]


def _is_language(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?", name):
        raise ValueError("not the name of a text search configuration of PostgreSQL, such as english or simple")
    return name


# With an optional schema; the migrations verify the configuration.
Language = Annotated[str, AfterValidator(_is_language)]

# Limits by unit, the last word of a name: thirty years, a petabyte.
LIMITS_BY_UNIT = {"seconds": 10**9, "days": 10**6, "bytes": 10**15}
# Limit of PostgreSQL's integers.
MAX_INTEGER = 2**31 - 1


class BoundedSettings(BaseSettings, allow_inf_nan=False):
    """Settings with bounded numbers."""

    @field_validator("*")
    @classmethod
    def _counts_something(cls, value: Any, info: ValidationInfo) -> Any:
        limit = LIMITS_BY_UNIT.get(str(info.field_name).rpartition("_")[2], MAX_INTEGER)
        if isinstance(value, int | float) and value > limit:
            raise ValueError(f"more than {limit}")
        return value


class OAuthEndpoints(BaseModel):
    """OAuth endpoints of a private vendor installation; absent ones are the vendor's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    authorize: Url = None
    token: Url = None
    revoke: Url = None
    # Former addresses with stored secrets to send here; `public` for the vendor's own.
    replaces: tuple[str, ...] = ()


class OAuthApp(BaseModel):
    """App of the operator at a service."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str = Field(min_length=1)
    client_secret: SecretStr = Field(min_length=1)


class Endpoint(BaseModel):
    """Address of a vendor, in place of the public address, with trusted certificates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Url = None
    # Former addresses with stored secrets to send here; `public` for the vendor's own.
    replaces: tuple[str, ...] = ()
    ca_bundle: Path | None = None


def _group(name: str) -> str:
    try:
        return principals.require_group_name(name, ErrorCode.INVALID_REQUEST, "group")
    except ServiceError as error:
        raise ValueError(str(error)) from error


class OidcRole(BaseModel):
    """Role and scope of an identity provider's group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Exact name in the token; `*` is everyone.
    group: Annotated[str, AfterValidator(_group)] = Field(min_length=1)
    role: Literal["viewer", "editor", "admin"]
    # Organization id; absent: the first one.
    organization: str | None = None
    tenant: str | None = Field(default=None, pattern="^[A-Za-z0-9_-]{1,64}$")
    namespace: str | None = None


def _is_issuer(url: str | None) -> str | None:
    loopback_pattern = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s?#@]*)?"
    if url and not re.fullmatch(rf"https://[^\s?#@]+|{loopback_pattern}", url):
        raise ValueError("not an https URL without a query, such as https://login.example.com/realms/staff")
    return url or None


# https, or loopback.
Issuer = Annotated[str | None, AfterValidator(_is_issuer)]


def _is_long(secret: SecretStr | None) -> SecretStr | None:
    # An empty secret counts as absent.
    if secret and 0 < len(secret.get_secret_value()) < 32:
        raise ValueError("shorter than 32 characters")
    return secret


def _is_proxy(value: SecretStr | None) -> SecretStr | None:
    url = value.get_secret_value() if value else ""
    if url and (not re.fullmatch(r"http://([!-.0-9;-?A-~]+(:[!-.0-9;-?A-~]*)?@)?[^\s/@:]+:\d+/?", url)):
        raise ValueError("not the address of a proxy, such as http://user:password@proxy.internal:3128")
    return value


# HTTP proxy with credentials.
EgressProxy = Annotated[SecretStr | None, AfterValidator(_is_proxy)]


# Signs cookies.
CookieSecret = Annotated[SecretStr | None, AfterValidator(_is_long)]


_DATABASE_EXAMPLE = "postgresql://user:password@host/database"


def _require_postgres_address(address: str) -> None:
    """Raise ValueError for an address unreadable by libpq, without quoting the address."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    scheme = re.match(r"([a-zA-Z][\w+.-]*)://", address)
    if scheme and scheme[1] not in ("postgresql", "postgres"):
        raise ValueError(f"the scheme {scheme[1]}:// is not PostgreSQL's: write {_DATABASE_EXAMPLE}")
    if not scheme and not re.match(r"\w+ *=", address):
        raise ValueError(f"not the address of a database, such as {_DATABASE_EXAMPLE}")
    try:
        parameters = conninfo_to_dict(address)
    except psycopg.Error:  # its text quotes the password
        parameters = {"port": "unreadable"}
    # libpq reads an unescaped / or @ of a password as the end of the login, and reports the rest as port or host.
    if "@" in str(parameters.get("host", "")) or not re.fullmatch(r"[\d,]*", str(parameters.get("port") or "")):
        raise ValueError(
            f"malformed: write {_DATABASE_EXAMPLE}, and in a password a space as %20, @ as %40, : as %3A, / as %2F, "
            "? as %3F, # as %23, % as %25"
        )


def _is_database(value: SecretStr | None) -> SecretStr | None:
    if value:
        _require_postgres_address(value.get_secret_value())
    return value


def _is_prefect_database(value: SecretStr | None) -> SecretStr | None:
    if value:
        # Prefect's driver is asyncpg: the scheme may name a driver, and parameters are not those of libpq.
        address = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", value.get_secret_value()).partition("?")[0]
        if "://" not in address:
            raise ValueError(f"not the URL of a database, such as {_DATABASE_EXAMPLE}")
        _require_postgres_address(address)
    return value


# libpq URL or `key=value`.
DatabaseUrl = Annotated[SecretStr | None, AfterValidator(_is_database)]
# URL; the scheme may name a driver.
PrefectDatabaseUrl = Annotated[SecretStr | None, AfterValidator(_is_prefect_database)]


def _is_login(value: SecretStr | None) -> SecretStr | None:
    if value and not re.fullmatch(r"[!-9;-~]+:[!-~]+", value.get_secret_value()):
        raise ValueError("not name:password, of printable ASCII without spaces")
    return value


# `name:password` for HTTP basic authentication.
PrefectLogin = Annotated[SecretStr | None, AfterValidator(_is_login)]


class OpenTelemetry(BaseSettings):
    """OpenTelemetry variables that enable tracing."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", extra="ignore", frozen=True)

    sdk_disabled: bool = False
    service_name: str = ""
    traces_exporter: str = "otlp"
    exporter_otlp_endpoint: str = ""
    exporter_otlp_traces_endpoint: str = ""
    exporter_otlp_protocol: str = ""
    exporter_otlp_traces_protocol: str = ""


class WrongSetting(SystemExit):
    """Exit with a sentence of each setting's problem, without values."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.sentence = "A setting is wrong. " + "; ".join(f"{name}: {problem}" for name, problem in problems)
        super().__init__(self.sentence)


def variable_name(field: object = None) -> str:
    return f"RETRIEVAL_{field}".upper() if field else "RETRIEVAL_*"


def describe_problem(error: Mapping[str, Any]) -> str:
    """Describe a pydantic validation error with its position in the setting."""
    inside, message = ".".join(map(str, error["loc"][1:])), str(error["msg"]).removeprefix("Value error, ")
    return f"{inside}: {message}" if inside else message
