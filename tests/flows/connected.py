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
    """`account`: what the connection leads to. The settings must lead there too (`lead_to`)."""

    def __init__(self, db, account) -> None:
        self.account = account
        field = sources.APP_CONFIGS.get(account.connector)
        app = {name: value for name, value in APP.items() if name != "apiKey" or field == "googleDriveConfig"}
        super().__init__(db, **({field: app} if field else {}))
        self.connection = self.connect()

    def schedule(self, connection: str = "") -> str:
        """The id of the schedule of a connection's interval, which is made now."""
        change = connections.ConnectionChange(sync_minutes=60, sync_sent=True)
        scope, name = self.scope, connection or self.connection
        return self.call(connections.change_connection(self.db, self.ring, scope, name, change, None)).schedule["id"]

    def repeat(self, connection: str = "") -> schedules.ScheduledRun:
        """The next job run by a connection's schedule."""
        return schedules.repeat_ingestion(self.db, self.schedule(connection))

    def connect(self) -> str:
        """A connection that a person has authorized, through the same states as over HTTP, or one with a config."""
        if self.account.connector in sources.CREDENTIAL_SOURCES:
            return self._create(
                registry.read_config(self.account.connector, self.account.config, settings.load_settings())
            )
        authorizer = registry.make_authorizer(self.account.connector, APP, settings.load_settings())
        back = "https://here.example/v1/oauth/callback/x"
        start = connections.begin_authorization(self.ring, self.account.connector, authorizer, back)
        made = self._create(start)
        self.authorize(made, authorizer, start, back)
        return made

    def _create(self, start) -> str:
        name, connector = "x", self.account.connector
        return self.call(
            connections.add_connection(
                self.db, self.scope, self.ring, start, name=name, connector=connector, client_redirect_url=None
            )
        )

    def authorize(self, connection, authorizer, start, back):
        sent = dict(parse_qsl(urlsplit(self.account.visit(start.url)).query))
        taken = self.call(connections.take_state(self.db, self.ring, sent["state"], self.account.connector))
        tokens = authorizer.exchange_code(sent["code"], redirect_uri=back, verifier=taken.verifier)
        self.call(authorizations.store_grant(self.db, self.ring, connection, tokens))

    def request(self, config=None, **asked) -> str:
        """The id of a job run that waits. `config`: what is chosen; `asked`: fields of Ingestion."""
        receipt = self.call(
            runs.accept_discovery(
                self.db,
                self.scope,
                source=self.account.connector,
                config=config or {},
                ingestion=Ingestion(**asked),
                connection_id=self.connection,
            )
        )
        return receipt.job_run_id

    def ingest(self, **config):
        """One job run from its request to its end; as a client reads it. `config`: what is chosen."""
        run = self.request(config)
        self.work()
        return self.run(run)

    def resync(self, *, confirm_deletions=False, **where):
        return self.call(
            resync.start_resync(self.db, self.scope, DocumentFilter(**where), confirm_deletions=confirm_deletions)
        )

    def take_up(self):
        """A batch whose worker was lost, by another one."""
        (row,) = self.db.rows("select id, attempt from batches where finished_at is null")
        lease = batches.claim_lease(self.db, row["id"], row["attempt"], seconds=30)
        assert lease is not None
        self.take(lease)

    def take(self, lease, *, before=lambda _name: None):
        for wanted in listings.pending_listings(self.db, lease):
            before("discover")
            try:
                steps.discover(steps.Discovery(self.db, self.ring, lease, wanted))
            except StepError as error:
                discover.fail_listing(self.db, lease, wanted, str(error))
        super().take(lease, before=before)


@contextmanager
def connected_space(db, account, monkeypatch):
    """A space of the account alone: nobody waits long."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    lead_to(monkeypatch, account)
    yield ConnectedSpace(db, account)
    settings.load_settings.cache_clear()


def lead_to(monkeypatch, account) -> None:
    """The settings of this process name the account's endpoints."""
    there = account.settings
    monkeypatch.setenv(
        "RETRIEVAL_ENDPOINTS", json.dumps({k: v.model_dump(mode="json") for k, v in there.endpoints.items()})
    )
    monkeypatch.setenv(
        "RETRIEVAL_OAUTH_ENDPOINTS",
        json.dumps({k: v.model_dump(mode="json") for k, v in there.oauth_endpoints.items()}),
    )
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", ",".join(map(str, there.fetch_allow)))
    monkeypatch.setenv("RETRIEVAL_SOURCE_FOLDERS", json.dumps([str(folder) for folder in there.source_folders]))
    settings.load_settings.cache_clear()
