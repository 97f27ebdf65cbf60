"""Types of settings, secrets given as the path of a file, and errors for values that cannot be read."""

from __future__ import annotations

import json
import re
import stat
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
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from retrieval import principals
from retrieval.errors import ErrorCode, ServiceError

_LARGEST = 64 * 1024


class FileProblem(Exception):
    """A setting whose file cannot be used: its name, and why in words that hold neither path nor content."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


def secret_fields(settings: type[BaseSettings]) -> tuple[str, ...]:
    return tuple(name for name, field in settings.model_fields.items() if "SecretStr" in str(field.annotation))


class SecretFiles(PydanticBaseSettingsSource):
    """The secrets that one of these sources gives as files. FileProblem where one cannot be had."""

    def __init__(self, settings_cls: type[BaseSettings], sources: Iterable[PydanticBaseSettingsSource]) -> None:
        super().__init__(settings_cls)
        self._sources = [getattr(source, "env_vars", {}) for source in sources]

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False  # `__call__` answers for all fields at once

    def __call__(self) -> dict[str, Any]:
        prefix = str(self.config.get("env_prefix", "")).lower()
        return dict(secrets_of(secret_fields(self.settings_cls), self._sources, prefix=prefix))


def secrets_of(fields: Iterable[str], sources: Iterable[Mapping[str, str | None]], *, prefix: str) -> dict[str, str]:
    """Field to content for those that the first source to know them gives as a file.

    `sources`: variables by lower-case name, such as the environment and then `.env`; in each of them `<prefix><field>`
    holds a value and `<prefix><field>_file` the absolute path of a file with it. FileProblem where one source gives
    both, or the file cannot be used.
    """
    secrets: dict[str, str] = {}
    decided: set[str] = set()
    for variables in sources:
        for field in fields:
            value, path = variables.get(prefix + field), variables.get(f"{prefix}{field}_file")
            if field in decided:
                continue
            if path and value:
                raise FileProblem(f"{prefix}{field}_file".upper(), f"{prefix}{field}".upper() + " is set as well")
            if path:
                secrets[field] = _content(f"{prefix}{field}_file".upper(), Path(path))
            if path or value is not None:
                decided.add(field)
    return secrets


def _content(name: str, file: Path) -> str:
    """Content of the file, without a byte order mark and surrounding white space."""
    if not file.is_absolute():
        raise FileProblem(name, "not the absolute path of a file")
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise FileProblem(name, "not a regular file")
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise FileProblem(name, f"the file is larger than {_LARGEST} bytes")
        text = content.decode("utf-8-sig").strip()
    except (FileNotFoundError, NotADirectoryError):
        raise FileProblem(name, "there is no such file") from None
    except PermissionError:
        raise FileProblem(name, "this user may not read the file") from None
    except UnicodeDecodeError:
        raise FileProblem(name, "the file is not UTF-8") from None
    except (OSError, ValueError):
        raise FileProblem(name, "the file cannot be read") from None
    if not text or not text.isprintable():
        raise FileProblem(name, "the file is empty" if not text else "the file does not hold one line of text")
    return text


def split_list(value: object) -> object:
    """Split a list like `10.0.0.0/8, 192.168.7.0/24`, or one of JSON."""
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


Url = Annotated[str | None, AfterValidator(_is_url)]
"""Where something is served, without a login; an empty one counts as absent."""


def _is_origin(origin: str) -> str:
    if origin != "*" and not re.fullmatch(
        r"https?://(\*\.)?[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?", origin
    ):
        raise ValueError("not an origin, such as https://app.example.com or https://*.example.com, and not *")
    return origin


Origin = Annotated[str, AfterValidator(_is_origin)]
"""Scheme, host and port of a website, as browsers send them; `*.` stands for any subdomain, `*` for every website."""


def _is_place(place: str) -> str:
    if "//" in place or not _leads_somewhere(f"http://{place}") or "/" in place:
        raise ValueError("not host:port, such as db.internal:5432 or [fd00::1]:5432")
    return place


def _places(value: object) -> object:
    """With commas, or as JSON; brackets belong to addresses."""
    if not isinstance(value, str):
        return value
    with suppress(json.JSONDecodeError):
        return json.loads(value)
    return [part for part in re.split(r"[\s,]+", value) if part]


def _split_paths(value: object) -> object:
    """Split at commas, since paths may have spaces, or read a list of JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            raise ValueError('neither paths with commas nor a list of JSON, such as ["/srv/files"]') from None
    return [part.strip() for part in value.split(",") if part.strip()]


Names = Annotated[list[str], NoDecode, BeforeValidator(split_list)]
"""Words, comma-separated or a list of JSON."""
Networks = Annotated[list[IPv4Network | IPv6Network], NoDecode, BeforeValidator(split_list)]
Origins = Annotated[list[Origin], NoDecode, BeforeValidator(split_list)]
Folders = Annotated[list[Path], NoDecode, BeforeValidator(_split_paths)]
"""Paths, comma-separated or a list of JSON."""
Places = Annotated[list[Annotated[str, AfterValidator(_is_place)]], NoDecode, BeforeValidator(_places)]
"""Hosts with their ports."""


def _is_language(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?", name):
        raise ValueError("not the name of a text search configuration of PostgreSQL, such as english or simple")
    return name


Language = Annotated[str, AfterValidator(_is_language)]
"""With its schema, perhaps. Whether PostgreSQL has it is found out with the migrations."""

MOST = {"seconds": 10**9, "days": 10**6, "bytes": 10**15}
MOST_OTHERWISE = 2**31 - 1
"""More counts nothing, by the last word of a number's name: thirty years, a petabyte, an integer of PostgreSQL."""


class BoundedSettings(BaseSettings, allow_inf_nan=False):
    """Settings whose numbers count something."""

    @field_validator("*")
    @classmethod
    def _counts_something(cls, value: Any, info: ValidationInfo) -> Any:
        limit = MOST.get(str(info.field_name).rpartition("_")[2], MOST_OTHERWISE)
        if isinstance(value, int | float) and value > limit:
            raise ValueError(f"more than {limit}")
        return value


class OAuthEndpoints(BaseModel):
    """Endpoints of a private or sovereign installation of a vendor; what is absent stays the vendor's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    authorize: Url = None
    token: Url = None
    revoke: Url = None
    replaces: tuple[str, ...] = ()
    """Addresses before these, `public` for the vendor's own, whose stored secrets may be sent here."""


class Endpoint(BaseModel):
    """Address of a vendor, if not its public one, and the certificates to trust there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Url = None
    replaces: tuple[str, ...] = ()
    """Addresses before this one, `public` for the vendor's own, whose stored secrets may be sent here."""
    ca_bundle: Path | None = None


def _group(name: str) -> str:
    try:
        return principals.group_name(name, ErrorCode.INVALID_REQUEST, "group")
    except ServiceError as error:
        raise ValueError(str(error)) from error


class OidcRole(BaseModel):
    """Role of the members of one group of the identity provider, and its scope."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Annotated[str, AfterValidator(_group)] = Field(min_length=1)
    """As the token names it, byte for byte; `*` is everyone whom the issuer lets in."""
    role: Literal["viewer", "editor", "admin"]
    organization: str | None = None
    """Its id; the first one of the installation if absent."""
    tenant: str | None = Field(default=None, pattern="^[A-Za-z0-9_-]{1,64}$")
    namespace: str | None = None


def _is_issuer(url: str | None) -> str | None:
    loopback_pattern = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s?#@]*)?"
    if url and not re.fullmatch(rf"https://[^\s?#@]+|{loopback_pattern}", url):
        raise ValueError("not an https URL without a query, such as https://login.example.com/realms/staff")
    return url or None


Issuer = Annotated[str | None, AfterValidator(_is_issuer)]
"""Whom tokens are believed from: spoken with by https, or on this machine."""


def _is_long(secret: SecretStr | None) -> SecretStr | None:
    """An empty one counts as absent, as of every secret."""
    if secret and 0 < len(secret.get_secret_value()) < 32:
        raise ValueError("shorter than 32 characters")
    return secret


def _is_proxy(value: SecretStr | None) -> SecretStr | None:
    url = value.get_secret_value() if value else ""
    if url and (not re.fullmatch(r"http://([!-.0-9;-?A-~]+(:[!-.0-9;-?A-~]*)?@)?[^\s/@:]+:\d+/?", url)):
        raise ValueError("not the address of a proxy, such as http://user:password@proxy.internal:3128")
    return value


EgressProxy = Annotated[SecretStr | None, AfterValidator(_is_proxy)]
"""A proxy by HTTP, with its credentials."""


CookieSecret = Annotated[SecretStr | None, AfterValidator(_is_long)]
"""What signs cookies."""


_DATABASE_EXAMPLE = "postgresql://user:password@host/database"


def _require_postgres_address(address: str) -> None:
    """Refuse an address that libpq cannot read; ValueError names the scheme at most, never the address."""
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


DatabaseUrl = Annotated[SecretStr | None, AfterValidator(_is_database)]
"""PostgreSQL as libpq names it, by URL or by `key=value`."""
PrefectDatabaseUrl = Annotated[SecretStr | None, AfterValidator(_is_prefect_database)]
"""PostgreSQL by URL; the scheme may name a driver."""


def _is_login(value: SecretStr | None) -> SecretStr | None:
    if value and not re.fullmatch(r"[!-9;-~]+:[!-~]+", value.get_secret_value()):
        raise ValueError("not name:password, of printable ASCII without spaces")
    return value


PrefectLogin = Annotated[SecretStr | None, AfterValidator(_is_login)]
"""`name:password` of HTTP's basic authentication."""


class OpenTelemetry(BaseSettings):
    """The variables of OpenTelemetry that decide whether tracing is on; its SDK reads them all."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", extra="ignore", frozen=True)

    sdk_disabled: bool = False
    service_name: str = ""
    traces_exporter: str = "otlp"
    exporter_otlp_endpoint: str = ""
    exporter_otlp_traces_endpoint: str = ""
    exporter_otlp_protocol: str = ""
    exporter_otlp_traces_protocol: str = ""


class WrongSetting(SystemExit):
    """Ends a process with one sentence that names each setting and what is wrong with it, never its value."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.sentence = "A setting is wrong. " + "; ".join(f"{name}: {problem}" for name, problem in problems)
        super().__init__(self.sentence)


def name_of(field: object = None) -> str:
    return f"RETRIEVAL_{field}".upper() if field else "RETRIEVAL_*"


def problem_of(error: Mapping[str, Any]) -> str:
    """Describe a validation error of pydantic, and its position within the setting."""
    inside, message = ".".join(map(str, error["loc"][1:])), str(error["msg"]).removeprefix("Value error, ")
    return f"{inside}: {message}" if inside else message
