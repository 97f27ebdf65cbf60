"""Typed settings, read once at the start from `RETRIEVAL_*` and `.env`; nothing else reads the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from retrieval.security.secrets import KeyRing, SecretError

PROJECT = Path(__file__).resolve().parent.parent


def _listed(value: object) -> object:
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


class Settings(BaseSettings):
    """Every knob, with its default. `.env.example` lists them for operators."""

    model_config = SettingsConfigDict(env_prefix="RETRIEVAL_", env_file=".env", extra="ignore", frozen=True)

    # Where things live
    home: Path = PROJECT / ".retrieval"
    database_url: SecretStr | None = None
    """Another PostgreSQL with pgvector; the embedded one if absent."""
    secret_key: SecretStr | None = None
    """`id:base64` of 32 random bytes; required with a database of your own. Several, comma-separated, rotate."""
    files_directory: Path | None = None
    """Where LOCAL file storage lies; `files` in the home if absent. Workers on other machines need the same folder."""

    # Addresses
    api_host: str = "127.0.0.1"
    api_port: int = Field(default=8000, ge=0, le=65535)
    prefect_port: int = Field(default=4200, ge=0, le=65535)
    ui_host: str = "127.0.0.1"
    """Where the admin app listens; put a proxy with TLS before it if it is another address."""
    ui_port: int = Field(default=8501, ge=0, le=65535)
    ui_api_url: str | None = None
    """Where the admin app reaches the API; the API's own address if absent."""
    trusted_proxies: Annotated[list[IPv4Network | IPv6Network], NoDecode, BeforeValidator(_listed)] = []
    """Addresses of proxies before the API, comma-separated: X-Forwarded-For tells the client where they send it."""
    public_url: str | None = None
    """Base of links that others follow; the API's own address if absent."""
    link_seconds: int = Field(default=3600, ge=1, le=604800)
    """How long a link to a document's file opens."""
    prefect_api_url: str | None = None
    """A Prefect server of your own, such as `http://prefect.internal:4200/api`; the bundled one if absent."""
    prefect_database_url: SecretStr | None = None
    """PostgreSQL for the bundled Prefect server (needs pg_trgm); its own SQLite file if absent."""

    # Processes
    api_processes: int = Field(default=1, ge=1)
    api_connections: int = Field(default=4096, ge=16)
    """Connections that one process of the API holds; the one that waits longest makes room for a new one."""
    api_address_connections: int = Field(default=512, ge=4)
    """The same for each client address; trusted proxies are not counted."""
    api_header_seconds: float = Field(default=10, gt=0)
    """How long a client may take to send the head of a request, from its connection or its first byte on."""
    api_idle_seconds: float = Field(default=75, gt=0)
    """How long a connection is kept between two requests, or while its client does not read; longer than a proxy's."""
    drain_seconds: float = Field(default=5, ge=0)
    """How long an API process that is to end says so at /ready before it takes no more connections, so that a load
    balancer sends requests elsewhere. `retrieval up`, with nothing before it, does not wait unless this is set."""
    worker_limit: int = Field(default=2, ge=1)
    """Flow runs at once on one worker."""
    work_pool: str = "retrieval"
    worker_entrypoints: list[str] = []
    """Flows of your own that the workers execute beside this project's, as `package.module.function`."""
    database_pool: int = Field(default=8, ge=1)
    log_format: Literal["json", "console"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # Reliability
    lease_seconds: float = 30
    """A worker that has not renewed its lease for so long is taken for dead."""
    attempts: int = Field(default=3, ge=1)
    """How often a document may take its process with it, without getting on, before it fails alone."""
    batch_limit: int = Field(default=64, ge=1)
    """Job runs of one source and scope that share a flow run where a backlog waits."""

    # What namespaces may use (D11)
    allow_local_files: bool = True
    allow_pgvector: bool = True
    allow_local_embeddings: bool = True
    allow_builtin_scraper: bool = True
    check_configs: bool = True
    """Try a namespace's storage, index and model when it is created or changed (D43)."""
    openai_models: list[str] = ["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
    cohere_models: list[str] = [
        "embed-english-v3.0",
        "embed-multilingual-v3.0",
        "embed-english-light-v3.0",
        "embed-multilingual-light-v3.0",
        "embed-v4.0",
        "embed-english-v2.0",
        "embed-english-light-v2.0",
        "embed-multilingual-v2.0",
    ]
    jina_models: list[str] = ["jina-embeddings-v3", "jina-embeddings-v4"]

    # Limits (D26, D41, D42)
    max_file_bytes: int = 50 * 1024 * 1024
    max_text_bytes: int = 5 * 1024 * 1024
    max_body_bytes: int = 10 * 1024 * 1024
    max_urls: int = 1000
    max_links: int = 10_000
    max_paths: int = 100
    max_selectors: int = 50
    max_selector_characters: int = 200
    metadata_keys: int = 50
    metadata_key_characters: int = 64
    metadata_value_bytes: int = 2048
    metadata_bytes: int = 16 * 1024
    namespace_limit: int = 100
    body_seconds: float = 30
    """How long a client may take to send a body; a file upload gets ten times as long, unless it stands still."""

    # Connections (D44, D45)
    redirect_hosts: list[str] = []
    """Hosts that clientRedirectUrl may name; any if the list is empty."""
    oauth_endpoints: dict[str, OAuthEndpoints] = {}
    """By connector: where its OAuth2 endpoints are, if not at the vendor's public addresses."""

    # Vendors
    s3_addressing: Literal["path", "virtual"] = "path"
    """Where a bucket's name goes: into the path, which every store takes, or into the host name."""
    endpoints: dict[str, Endpoint] = {}
    """By vendor (OPENAI, COHERE, JINA, PINECONE, S3, FIRECRAWL, …): the operator's own endpoint, which is trusted."""

    # Fetching of addresses that users name
    fetch_allow: Annotated[list[IPv4Network | IPv6Network], NoDecode, BeforeValidator(_listed)] = []
    """Ranges beside the public internet that may be fetched, comma-separated; a cloud's metadata addresses never."""
    own_addresses: Annotated[list[str], NoDecode, BeforeValidator(_listed)] = []
    """`host:port` of this installation's parts on other machines, comma-separated: never fetched, whatever is allowed.
    The ports of this machine's, and the addresses of Prefect and the databases, are known without."""
    fetch_user_agent: str = Field(default="RetrievalService/0.1", min_length=1, pattern=r"^[ -~]+$")
    """Who fetches, as sites see it; the part before the slash is the name that robots.txt may use."""
    fetch_seconds: float = Field(default=60, gt=0)
    """How long one fetch may take in all, redirects included."""
    fetch_host_limit: int = Field(default=4, ge=1)
    """Requests to one host at once, per worker process."""
    fetch_host_delay: float = Field(default=0.25, ge=0)
    """Seconds between two requests to one host, per worker process; a longer Crawl-delay of the site wins."""
    fetch_robots: bool = True
    """Whether robots.txt binds crawls and sitemaps, and its delay all fetching (D23, D59)."""
    crawl_seconds: float = Field(default=14400, gt=0)
    """How long a scraping service may take for one website; what it has brought by then is ingested."""

    # Parsing and search
    readback_seconds: float = Field(default=60, ge=0)
    """How long a vector store may take until it shows what was written; after that the document fails."""
    parse_seconds: float = 60
    """Of processor time, for one file (H100)."""
    parse_memory_bytes: int = 512 * 1024 * 1024
    page_seconds: float = Field(default=20, gt=0)
    """How long drawing one page of a PDF may take."""
    archive_members: int = Field(default=1000, ge=1)
    """Files that one archive or mail may hold."""
    archive_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    """What one archive or mail may unfold to."""
    archive_all_members: int = Field(default=5000, ge=1)
    """Documents that one archive may become, those of the archives within it included."""
    archive_all_bytes: int = Field(default=2 * 1024 * 1024 * 1024, ge=1)
    """What one archive may unfold to with the archives within it."""
    ocr_languages: list[str] = ["eng"]
    """Languages of scans by tesseract's names; without it only Latin, Chinese and Japanese script is read."""
    ocr_page_seconds: float = Field(default=240, gt=0)
    """Of processor time, for one page."""
    ocr_memory_bytes: int = Field(default=1536 * 1024 * 1024, ge=768 * 1024 * 1024)
    """For each process that recognises: the packaged engine alone takes about 820 MB."""
    ocr_pages: int = Field(default=2000, ge=1)
    """Pages of one file that are recognised at most."""
    keyword_language: str = "english"
    """PostgreSQL text search configuration of the keyword side."""

    @field_validator("secret_key")
    @classmethod
    def _is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            KeyRing.parse(value.get_secret_value()) if value else None
        except SecretError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("database_url", "prefect_database_url")
    @classmethod
    def _is_a_database(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not re.match(r"\w+(\+\w+)?://|\w+ *=", value.get_secret_value()):
            raise ValueError("not the address of a database, such as postgresql://user:password@host/database")
        return value

    @property
    def base_url(self) -> str:
        """What redirect URIs and links are built on, without a slash at the end (D60)."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.api_host, self.api_host)  # noqa: S104
        return (self.public_url or f"http://{host}:{self.api_port}").rstrip("/")

    @property
    def files(self) -> Path:
        return self.files_directory or self.home / "files"


@lru_cache(maxsize=1)
def load() -> Settings:
    """The settings of this process; WrongSetting where one cannot be read."""
    try:
        return Settings()
    except ValidationError as error:
        raise WrongSetting((_name(*one["loc"][:1]), _problem(one)) for one in error.errors()) from None
    except SettingsError as error:
        field = next((name for name in re.findall(r'"(\w+)"', str(error)) if name in Settings.model_fields), None)
        raise WrongSetting([(_name(field), "not the JSON that is needed here")]) from None
    except UnicodeDecodeError:
        raise WrongSetting([(".env", "not UTF-8")]) from None


class WrongSetting(SystemExit):
    """Ends a process with one sentence that names each setting and what is wrong with it, never its value."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.sentence = "A setting is wrong. " + "; ".join(f"{name}: {problem}" for name, problem in problems)
        super().__init__(self.sentence)


def _name(field: object = None) -> str:
    return f"RETRIEVAL_{field}".upper() if field else "RETRIEVAL_*"


def _problem(error: Mapping[str, Any]) -> str:
    """What pydantic says, and where within the setting."""
    inside = ".".join(map(str, error["loc"][1:]))
    return f"{inside}: {error['msg']}" if inside else str(error["msg"])
