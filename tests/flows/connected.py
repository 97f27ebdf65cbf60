"""A namespace with a connection to an account on loopback, taken through the flows' own steps without Prefect."""

from __future__ import annotations

import json
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from connectors import registry
from connectors.http import retries
from flows import steps
from retrieval import settings, sources
from retrieval.connections import connections, schedules
from retrieval.connections import tokens as authorizations
from retrieval.errors import StepError
from retrieval.filters import DocumentFilter
from retrieval.ingestion import discover
from retrieval.ingestion.queries import listings
from retrieval.job_config import Ingestion
from retrieval.jobs import resync, runs
from retrieval.jobs.queries import batches
from tests.flows.configured import Configured
from tests.standins.place import APP


class ConnectedSpace(Configured):
    """Namespace with a connection to `account`; point the settings there with `lead_to`."""

    def __init__(self, db, account) -> None:
        self.account = account
        field = None if hasattr(account, "config") else sources.APP_CONFIGS.get(account.connector)
        app = {name: value for name, value in APP.items() if name != "apiKey" or field == "googleDriveConfig"}
        super().__init__(db, **({field: app} if field else {}))
        self.connection = self.connect()

    def schedule(self, connection: str = "") -> str:
        """Create the schedule of a connection's interval; return its id."""
        change = connections.ConnectionChange(sync_minutes=60, changes_sync=True)
        scope, name = self.scope, connection or self.connection
        return self.call(connections.change_connection(self.db, self.ring, scope, name, change, None)).schedule["id"]

    def repeat(self, connection: str = "") -> schedules.ScheduledRun:
        """The next job run by a connection's schedule."""
        return schedules.repeat_ingestion(self.db, self.schedule(connection))

    def connect(self) -> str:
        """Authorize a connection through the states of HTTP, or create one from a config."""
        if hasattr(self.account, "config"):
            return self._create(
                registry.read_config(self.account.connector, self.account.config, settings.load_settings())
            )
        authorizer = registry.make_authorizer(self.account.connector, APP, settings.load_settings())
        back = "https://here.example/v1/oauth/callback/x"
        start = connections.begin_authorization(self.ring, self.account.connector, authorizer, back)
        connection = self._create(start)
        self.authorize(connection, authorizer, start, back)
        return connection

    def _create(self, start) -> str:
        name, connector = "x", self.account.connector
        return self.call(
            connections.add_connection(
                self.db, self.scope, self.ring, start, name=name, connector=connector, client_redirect_url=None
            )
        )

    def authorize(self, connection, authorizer, start, back):
        redirect = dict(parse_qsl(urlsplit(self.account.visit(start.url)).query))
        state = self.call(connections.take_state(self.db, self.ring, redirect["state"], self.account.connector))
        tokens = authorizer.exchange_code(redirect["code"], redirect_uri=back, verifier=state.verifier)
        self.call(authorizations.store_grant(self.db, self.ring, connection, tokens))

    def request(self, config=None, **ingestion) -> str:
        """Request a job run; return its id."""
        receipt = self.call(
            runs.accept_discovery(
                self.db,
                self.scope,
                source=self.account.connector,
                config=config or {},
                ingestion=Ingestion(**ingestion),
                connection_id=self.connection,
            )
        )
        return receipt.job_run_id

    def ingest(self, **config):
        """Run one job from request to end with the given `config`."""
        run = self.request(config)
        self.work()
        return self.run(run)

    def resync(self, *, confirm_deletions=False, **filters):
        return self.call(
            resync.start_resync(self.db, self.scope, DocumentFilter(**filters), confirm_deletions=confirm_deletions)
        )

    def documents(self):
        """Live documents of the connection by external id."""
        documents = super().documents()
        return {name: row for name, row in documents.items() if row["connection_id"] == self.connection}

    def take_up(self):
        """Take over the batch of a lost worker."""
        (row,) = self.db.rows("select id, attempt from batches where finished_at is null")
        lease = batches.claim_lease(self.db, row["id"], row["attempt"], seconds=30)
        assert lease is not None
        self.take(lease)

    def take(self, lease, *, before_step=lambda _name: None):
        for listing in listings.pending_listings(self.db, lease):
            before_step("discover")
            try:
                steps.discover(steps.Discovery(self.db, self.ring, lease, listing))
            except StepError as error:
                discover.fail_listing(self.db, lease, listing, str(error))
        super().take(lease, before_step=before_step)


@contextmanager
def connected_space(db, account, monkeypatch):
    """Connected space with short pauses between retries."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    lead_to(monkeypatch, account)
    yield ConnectedSpace(db, account)
    settings.load_settings.cache_clear()


def lead_to(monkeypatch, account) -> None:
    """The settings of this process name the account's endpoints."""
    account_settings = account.settings
    monkeypatch.setenv(
        "RETRIEVAL_ENDPOINTS", json.dumps({k: v.model_dump(mode="json") for k, v in account_settings.endpoints.items()})
    )
    monkeypatch.setenv(
        "RETRIEVAL_OAUTH_ENDPOINTS",
        json.dumps({k: v.model_dump(mode="json") for k, v in account_settings.oauth_endpoints.items()}),
    )
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", ",".join(map(str, account_settings.fetch_allow)))
    monkeypatch.setenv(
        "RETRIEVAL_SOURCE_FOLDERS", json.dumps([str(folder) for folder in account_settings.source_folders])
    )
    settings.load_settings.cache_clear()
