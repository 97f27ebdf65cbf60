"""What settings are made of, and what is said of one that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def listed(value: object) -> object:
    """A list that an operator writes with commas, `10.0.0.0/8, 192.168.7.0/24`, or as JSON."""
    return [part for part in re.split(r'[\s,"\[\]]+', value) if part] if isinstance(value, str) else value


class OAuthEndpoints(BaseModel):
    """Endpoints of a private or sovereign installation of a vendor; what is absent stays the vendor's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    authorize: str | None = None
    token: str | None = None
    revoke: str | None = None
    replaces: tuple[str, ...] = ()
    """Addresses before these, `public` for the vendor's own, whose stored secrets may be sent here."""


class Endpoint(BaseModel):
    """Where a vendor answers, if not at its public address, and the certificates that vouch for it there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    replaces: tuple[str, ...] = ()
    """Addresses before this one, `public` for the vendor's own, whose stored secrets may be sent here."""
    ca_bundle: Path | None = None


class OidcRole(BaseModel):
    """What the members of one group of the identity provider may do, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = Field(min_length=1)
    """As the token names it; `*` is everyone whom the issuer lets in."""
    role: Literal["viewer", "editor", "admin"]
    organization: str | None = None
    """Its id; the first one of the installation if absent."""
    tenant: str | None = Field(default=None, pattern="^[A-Za-z0-9_-]{1,64}$")
    namespace: str | None = None


def _is_issuer(url: str | None) -> str | None:
    own = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s?#@]*)?"
    if url and not re.fullmatch(rf"https://[^\s?#@]+|{own}", url):
        raise ValueError("not an https URL without a query, such as https://login.example.com/realms/staff")
    return url or None


Issuer = Annotated[str | None, AfterValidator(_is_issuer)]
"""Whom tokens are believed from: spoken with by https, or on this machine."""


def _is_long(secret: SecretStr | None) -> SecretStr | None:
    """An empty one counts as absent, as of every secret."""
    if secret and 0 < len(secret.get_secret_value()) < 32:
        raise ValueError("shorter than 32 characters")
    return secret


CookieSecret = Annotated[SecretStr | None, AfterValidator(_is_long)]
"""What signs cookies."""


class OpenTelemetry(BaseSettings):
    """Of OpenTelemetry's own variables those that say whether anybody traces; its SDK reads them all."""

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
    """What pydantic says, and where within the setting."""
    inside = ".".join(map(str, error["loc"][1:]))
    return f"{inside}: {error['msg']}" if inside else str(error["msg"])
