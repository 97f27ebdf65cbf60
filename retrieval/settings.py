"""Typed settings, read once at the start from `RETRIEVAL_*` and `.env`; nothing else reads the environment."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from retrieval.config_file import ConfigFile
from retrieval.secret_files import FileProblem, SecretFiles, secret_fields
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.setting_values import (
    BoundedSettings,
    CookieSecret,
    DatabaseUrl,
    EgressProxy,
    Endpoint,
    Folders,
    Issuer,
    Language,
    Names,
    NamespaceDefaults,
    Networks,
    OAuthApp,
    OAuthEndpoints,
    OidcRole,
    Origins,
    Places,
    PrefectDatabaseUrl,
    PrefectLogin,
    Url,
    WrongSetting,
    describe_problem,
    variable_name,
)

PROJECT_ROOT = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (PROJECT_ROOT / "pyproject.toml").is_file()
DEFAULT_HOME = (
    PROJECT_ROOT / ".retrieval" if IS_CHECKOUT else platformdirs.user_data_path("retrieval-service", appauthor=False)
)
ENV_FILE = Path(".env") if IS_CHECKOUT else DEFAULT_HOME / ".env"
CONFIG_FILE = ENV_FILE.with_name("retrieval.toml")


class Settings(BoundedSettings, BaseSettings):
    """Settings with their defaults; comments and docstrings below are documentation and `.env.example`."""

    model_config = SettingsConfigDict(env_prefix="RETRIEVAL_", env_file=ENV_FILE, extra="ignore", frozen=True)

    # Storage locations
    home: Path = DEFAULT_HOME
    """Directory of all state: `.retrieval` in a checkout, else `retrieval-service` in the user's data directory."""
    config: Path | None = None
    """Path of the configuration file; `retrieval.toml` next to `.env` if absent."""
    database_url: DatabaseUrl = None
    """PostgreSQL with pgvector, as `postgresql://user:password@host/database`; the embedded one if absent."""
    secret_key: SecretStr | None = None
    """Keys for stored secrets, each `id:base64` of 32 random bytes, comma-separated. The first encrypts, all decrypt.
    Required with a database of your own; else created on first start."""
    files_directory: Path | None = None
    """Directory of LOCAL file storage; `files` in the home if absent. All machines need the same directory."""

    # Addresses
    api_host: str = "127.0.0.1"
    """Interface of the API."""
    api_port: int = Field(default=8000, ge=0, le=65535)
    """Port of the API; 0 picks a free one."""
    prefect_port: int = Field(default=4200, ge=0, le=65535)
    """Port of the bundled Prefect server; 0 picks a free one."""
    ui_host: str = "127.0.0.1"
    """Interface of the admin app. It speaks plain HTTP: put a proxy with TLS before any other address."""
    ui_port: int = Field(default=8501, ge=0, le=65535)
    """Port of the admin app; 0 picks a free one."""
    ui_public_url: Url = None
    """URL of the admin app for browsers; its own address if absent."""
    ui_api_url: Url = None
    """URL of the API for the admin app; the API's own address if absent."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port for Prometheus, without a key; 0 picks a free one, absent is off."""
    metrics_host: str = "127.0.0.1"
    """Interface of the metrics port. Any other than loopback needs `RETRIEVAL_METRICS_TOKEN`."""
    metrics_token: SecretStr | None = None
    """Bearer token of the metrics port; none on loopback if absent."""
    trusted_proxies: Networks = []
    """Addresses of proxies before the API whose `X-Forwarded-For` is trusted, such as `10.0.0.5,10.1.0.0/16`."""
    public_url: Url = None
    """URL of the API for clients, in signed links and OAuth redirect URIs; the API's own address if absent."""
    mcp_hosts: Names = []
    """Host names of `/mcp` next to the public URL and loopback, comma-separated; others are refused."""
    cors_origins: Origins = []
    """Origins of scripts that may call `/v1` (CORS), as `https://app.example.com,https://*.example.org`."""
    link_seconds: int = Field(default=3600, ge=1, le=604800)
    """Validity of a signed link to a document's file, in seconds."""
    prefect_api_url: Url = None
    """API URL of your own Prefect server, such as `http://prefect.internal:4200/api`; the bundled one if absent."""
    prefect_host: str = "127.0.0.1"
    """Interface of the bundled Prefect server. It speaks plain HTTP."""
    prefect_names: Names = []
    """Host names of the bundled Prefect server besides localhost; requests to other hosts are refused."""
    prefect_login: PrefectLogin = None
    """`name:password` of the bundled Prefect server, or of your own (its `PREFECT_API_AUTH_STRING`). If absent, the
    bundled server's is created on first start."""
    prefect_api_key: SecretStr | None = None
    """API key of Prefect Cloud, or of a server with API keys, with `RETRIEVAL_PREFECT_API_URL`."""
    prefect_database_url: PrefectDatabaseUrl = None
    """PostgreSQL with pg_trgm for the bundled Prefect server; the embedded PostgreSQL if absent."""

    # Processes
    api_processes: int = Field(default=1, ge=1)
    """Number of API processes."""
    api_idle_seconds: float = Field(default=75, gt=0)
    """Seconds before an idle connection is closed. Set it above the keep-alive time of a proxy before the API."""
    drain_seconds: float = Field(default=5, ge=0)
    """Seconds of 503 at `/ready` before a stopping API process closes its listener, so load balancers send requests
    elsewhere. `retrieval up` does not wait unless this is set."""
    worker_limit: int = Field(default=2, ge=1)
    """Concurrent flow runs of one worker."""
    work_pool: str = "retrieval"
    """Name of the work pool in Prefect."""
    worker_entrypoints: Names = []
    """Your own flows for the workers, comma-separated, as `package.module.function`."""
    database_pool: int = Field(default=8, ge=1)
    """Most database connections of one process."""
    log_format: Literal["json", "console"] = "console"
    """Format of log lines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest logged level."""

    # Reliability
    lease_seconds: float = Field(default=30, gt=0)
    """Seconds without a renewed lease before a worker's batch is given to another worker."""
    attempts: int = Field(default=3, ge=1)
    """Deaths or failures of the process at work on a document, after which it fails; a lost worker counts a tenth."""
    outage_seconds: float = Field(default=3600, gt=0)
    """Seconds before job runs fail if a vendor does not answer; for a site at most 300."""
    batch_limit: int = Field(default=1000, ge=1)
    """Most waiting job runs of one source and scope in a flow run."""

    # What is kept of the past
    audit_days: int = Field(default=400, ge=1)
    """Days before audit entries are deleted."""
    webhook_days: int = Field(default=7, ge=1)
    """Days before webhook deliveries are deleted."""
    prefect_events: bool = False
    """Emit events of job runs and connections to Prefect, such as `retrieval.run.completed`, for automations."""

    prices: dict[str, float] = {}
    """Prices of a million embedded tokens by `PROVIDER/model`, as `{"OPENAI/text-embedding-3-small": 0.02}`, for `GET
    /v1/usage`. LOCAL is free; absent models have no cost there."""
    price_currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    """Currency of the prices."""

    # What namespaces may use
    default_namespace: NamespaceDefaults = None
    """Configs of a new namespace that does not send them: the JSON of `POST /v1/namespaces` without `name`."""
    allow_local_files: bool = True
    """Allow the file storage `LOCAL`."""
    allow_pgvector: bool = True
    """Allow the vector storage `PGVECTOR`."""
    allow_local_embeddings: bool = True
    """Allow the embedding provider `LOCAL`."""
    local_model_runtime: Literal["auto", "openvino", "onnxruntime"] = "auto"
    """Runtime of the LOCAL embedding model: `auto` is OpenVINO on processors with bfloat16, else ONNX Runtime."""
    allow_builtin_scraper: bool = True
    """Allow the web scraper `BUILTIN`."""
    allow_local_rerankers: bool = True
    """Allow the reranking provider `LOCAL`."""
    rerankers: Path | None = None
    """Folder of the models of `LOCAL` rerankers; `rerankers` in the home if absent."""
    check_configs: bool = True
    """Test a namespace's storage, index and model with real requests when it is created or changed."""
    openai_models: Names = ["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
    """Allowed embedding models of `OPENAI`."""
    cohere_models: Names = [
        "embed-english-v3.0",
        "embed-multilingual-v3.0",
        "embed-english-light-v3.0",
        "embed-multilingual-light-v3.0",
        "embed-v4.0",
        "embed-english-v2.0",
        "embed-english-light-v2.0",
        "embed-multilingual-v2.0",
    ]
    """Allowed embedding models of `COHERE`."""
    jina_models: Names = ["jina-embeddings-v3", "jina-embeddings-v4"]
    """Allowed embedding models of `JINA`."""

    # Sign-in by OpenID Connect
    oidc_issuer: Issuer = None
    """Issuer of accepted bearer tokens, exactly as in their `iss`; only API keys if absent."""
    oidc_audience: Names = []
    """Accepted audiences (`aud`), comma-separated; `RETRIEVAL_OIDC_CLIENT_ID` is accepted, too."""
    oidc_clients: Names = []
    """Accepted clients (`azp`), comma-separated; every client if absent. A token for several audiences needs an `azp`
    among these, the audiences or `RETRIEVAL_OIDC_CLIENT_ID`."""
    oidc_roles: list[OidcRole] = []
    """Roles of groups, as `[{"group": "search-admins", "role": "admin"}, {"group": "staff", "role": "viewer"}]`: the
    first entry with a group of the person decides; `*` is everyone, and people without an entry are refused. Roles are
    `viewer`, `editor`, `admin`; `organization` (an id, else the first one), `tenant` and `namespace` restrict them."""
    oidc_principal_claim: str = Field(default="sub", min_length=1)
    """Claim with the person's name in documents' `access`. `email` counts only with `email_verified: true`."""
    oidc_groups_claim: str = Field(default="groups", min_length=1)
    """Claim with the person's groups; a dot leads into an object, as in `realm_access.roles`."""
    oidc_discovery_url: Issuer = None
    """URL of the issuer's discovery document, if not `/.well-known/openid-configuration` below the issuer."""
    oidc_ca_bundle: Path | None = None
    """File of CA certificates for the issuer; the usual ones if absent."""
    oidc_client_id: str | None = Field(default=None, validate_default=True)
    """Client id of the admin app at the issuer (redirect URI: `/oauth2callback` below the app's URL), if registered."""
    oidc_client_secret: SecretStr | None = None
    """Client secret of the admin app."""
    oidc_cookie_secret: CookieSecret = None
    """Signing key of the admin app's cookies, 32 characters or more, equal on all machines; else created once."""
    oidc_scopes: str = "openid email profile"
    """Scopes requested by the admin app."""
    oidc_ui_token: Literal["id", "access"] = "id"  # noqa: S105 - which one, not itself
    """Token sent by the admin app to the API; an access token must be a JWT for an audience."""

    # Limits
    max_file_bytes: int = Field(default=50 * 1024 * 1024, ge=1)
    """Bytes of an uploaded or fetched file."""
    max_text_bytes: int = Field(default=5 * 1024 * 1024, ge=1)
    """Bytes of the text of a TEXT ingestion."""
    max_body_bytes: int = Field(default=10 * 1024 * 1024, ge=1)
    """Bytes of a JSON request body."""
    max_urls: int = Field(default=1000, ge=1)
    """URLs of one URL list."""
    max_links: int = Field(default=10_000, ge=1)
    """Largest `maxLinks` of a sitemap or website ingestion."""
    max_paths: int = Field(default=100, ge=1)
    """Entries of `includePaths`, and of `excludePaths`."""
    max_selectors: int = Field(default=50, ge=1)
    """CSS selectors in one list of `scrapeOptions`."""
    max_selector_characters: int = Field(default=200, ge=1)
    """Characters of one CSS selector."""
    metadata_keys: int = Field(default=50, ge=1)
    """Keys of a document's metadata."""
    metadata_key_characters: int = Field(default=64, ge=1)
    """Characters of one metadata key."""
    metadata_value_bytes: int = Field(default=2048, ge=1)
    """Bytes of one metadata value as JSON."""
    metadata_bytes: int = Field(default=16 * 1024, ge=1)
    """Bytes of a document's whole metadata as JSON."""
    namespace_limit: int = Field(default=100, ge=0)
    """Namespaces of an organization without a limit of its own."""
    body_seconds: float = Field(default=30, gt=0)
    """Seconds for a client to send a request body, ten times as long for a file without such a pause."""

    # Connections
    redirect_hosts: Names = []
    """Allowed hosts of `clientRedirectUrl`, comma-separated; an empty list allows every host."""
    oauth_endpoints: dict[str, OAuthEndpoints] = {}
    """Other OAuth2 endpoints: `{"BOX": {"authorize": "https://…", "token": "https://…", "revoke": "https://…"}}`."""
    oauth_apps: dict[str, OAuthApp] = {}
    """OAuth2 apps for described services, by name: `{"GITLAB": {"client_id": "…", "client_secret": "…"}}`."""
    source_folders: Folders = []
    """Folders with subfolders for connections of OBJECTS: `/srv/files`, or `org_…=/srv/files` for an organization."""
    source_descriptions: Path | None = None
    """Folder of descriptions of services in YAML, for connections of CUSTOM."""

    # Vendors
    s3_addressing: Literal["path", "virtual"] = "path"
    """Position of the bucket's name: in the path (accepted by every S3 store) or in the host name."""
    endpoints: dict[str, Endpoint] = {}
    """Addresses other than the vendors' public ones, by name (OPENAI, COHERE, JINA, PINECONE, S3, FIRECRAWL,
    JINA_READER, SCRAPINGBEE, and every `connector` of the contract):
    `{"S3": {"base_url": "https://minio.internal:9000", "ca_bundle": "/etc/ssl/house.pem"}}`. They are trusted: private
    addresses are allowed. Stored secrets are sent to a changed address only if `replaces` names the former one:
    `{"OPENAI": {"base_url": "https://new.internal/v1", "replaces": ["https://old.internal/v1"]}}`, where `"public"` is
    the vendor's own. S3's entry holds for namespaces that name the same endpoint; its `ca_bundle` holds for all."""
    egress_proxy: EgressProxy = None
    """HTTP proxy to public addresses, `http://user:password@host:port`, used by CONNECT after the address check."""

    # Fetching of URLs given by users
    fetch_allow: Networks = []
    """Allowed private ranges of fetches, comma-separated, as `10.1.0.0/16`. Cloud metadata is always refused."""
    own_addresses: Places = []
    """`host:port` of own services on other machines, comma-separated: refused like this machine's."""
    fetch_user_agent: str = Field(default="RetrievalService/0.1", min_length=1, pattern=r"^[ -~]+$")
    """User-Agent header of fetches, best with a contact address; robots.txt is matched against the part before `/`."""
    fetch_seconds: float = Field(default=60, gt=0)
    """Timeout of one fetch in seconds, redirects included."""
    fetch_host_limit: int = Field(default=4, ge=1)
    """Concurrent requests to one host, for each worker process."""
    fetch_host_delay: float = Field(default=0.25, ge=0)
    """Seconds between two requests to one host, for each worker process; a longer Crawl-delay of the site wins."""
    fetch_robots: bool = True
    """Obey robots.txt in crawls and sitemaps, and its Crawl-delay in all fetches."""
    crawl_seconds: float = Field(default=14400, gt=0)
    """Timeout of a scraping service's crawl of one website in seconds. Pages received before are ingested."""

    # Parsing and search
    readback_seconds: float = Field(default=60, ge=0)
    """Seconds before written vectors must be listed by the vector store; else the document fails."""
    parse_seconds: float = Field(default=60, gt=0)
    """Seconds of CPU time for parsing one file; ten times as many of wall-clock time."""
    parse_memory_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    """Bytes of memory for parsing one file."""
    page_seconds: float = Field(default=20, gt=0)
    """Seconds for rendering one page of a PDF as an image."""
    archive_members: int = Field(default=1000, ge=1)
    """Files in one archive or mail."""
    archive_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    """Unpacked bytes of one archive or mail."""
    archive_all_members: int = Field(default=5000, ge=1)
    """Documents made from one archive, archives within it included."""
    archive_all_bytes: int = Field(default=2 * 1024 * 1024 * 1024, ge=1)
    """Unpacked bytes of one archive, archives within it included."""
    ocr_languages: Names = ["eng"]
    """Languages of scans, by tesseract's names; their data must be installed."""
    ocr_page_seconds: float = Field(default=240, gt=0)
    """Seconds of CPU time for recognising one page; ten times as many of wall-clock time."""
    ocr_memory_bytes: int = Field(default=1536 * 1024 * 1024, ge=768 * 1024 * 1024)
    """Bytes of memory for each OCR process (at most one for each core); the packaged engine needs about 820 MB."""
    ocr_pages: int = Field(default=2000, ge=1)
    """Most recognised pages of one file."""
    search_seconds: float = Field(default=20, gt=0)
    """Timeout of a search in the database, and of a filtered list, in seconds; then 503, `took_too_long`."""
    weak_search_days: int = Field(default=14, ge=0, le=3650)
    """Days before queries without good results are deleted, recorded for content repair; 0 records none."""
    keyword_language: Language = "english"
    """PostgreSQL text search configuration of texts without a detected language."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment, `.env` and `retrieval.toml`, in this order; in each also secrets from `…_FILE`."""
        config = ConfigFile(settings_cls, CONFIG_FILE, [env_settings, dotenv_settings])
        files = SecretFiles(settings_cls, [env_settings, dotenv_settings, config])
        return (init_settings, files, env_settings, dotenv_settings, config, file_secret_settings)

    @field_validator("secret_key")
    @classmethod
    def _is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            KeyRing.parse(value.get_secret_value()) if value else None
        except SecretError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("oidc_client_id")
    @classmethod
    def _has_an_issuer(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("oidc_issuer") and not (value or info.data.get("oidc_audience")):
            raise ValueError("this or RETRIEVAL_OIDC_AUDIENCE is needed with RETRIEVAL_OIDC_ISSUER")
        return value or None

    @property
    def oidc_audiences(self) -> frozenset[str]:
        """Return the accepted audiences, including the admin app's client if the app sends ID tokens."""
        sends_id = self.oidc_ui_token == "id" or not self.oidc_audience  # noqa: S105 - which token
        return frozenset(filter(None, [*self.oidc_audience, self.oidc_client_id if sends_id else None]))

    @property
    def base_url(self) -> str:
        """Return the base of redirect URIs and links, without a trailing slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.api_host, self.api_host)  # noqa: S104
        return (self.public_url or f"http://{f'[{host}]' if ':' in host else host}:{self.api_port}").rstrip("/")

    @property
    def files_folder(self) -> Path:
        return self.files_directory or self.home / "files"

    @property
    def rerankers_folder(self) -> Path:
        return self.rerankers or self.home / "rerankers"


# Each may be given as a file.
SECRET_FIELDS = secret_fields(Settings)


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """Load the settings of this process. Raises WrongSetting for unreadable ones."""
    try:
        return Settings()
    except ValidationError as error:
        raise WrongSetting(
            (variable_name(*problem["loc"][:1]), describe_problem(problem)) for problem in error.errors()
        ) from None
    except SettingsError as error:
        field = next((name for name in re.findall(r'"(\w+)"', str(error)) if name in Settings.model_fields), None)
        raise WrongSetting([(variable_name(field), "not the JSON that is needed here")]) from None
    except FileProblem as error:
        raise WrongSetting([(error.name, error.problem)]) from None
    except UnicodeDecodeError:
        raise WrongSetting([(".env", "not UTF-8")]) from None
