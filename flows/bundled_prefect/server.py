"""Prefect's server on its own SQLite file, for one machine: the stock command, with transactions that queue.

Prefect begins most transactions DEFERRED. On SQLite two of them that read and then write refuse each other at once
("database is locked"), which the server answers with 503 and its clients repeat after two seconds or more. Begun
IMMEDIATE they wait for each other for some milliseconds instead. With PostgreSQL nothing changes. What listens answers
under its own address alone, and under the names given (`flows/bundled_prefect/own_address.py`).

    python -m flows.bundled_prefect.server --names=prefect.internal server start --host 127.0.0.1 --port 4200
"""

from __future__ import annotations

import sys
from functools import partial

from flows.bundled_prefect.own_address import OwnAddress
from flows.prefect_internals import server
from retrieval import logs

_NAMES = "--names="


def main() -> None:
    """Prefect's own command line."""
    logs.lose_what_does_not_fit()
    server.begin_transactions_immediately()
    server.look_rarely()
    server.wrap_application(partial(OwnAddress, names=_names()))
    server.run_command_line()


def _names() -> list[str]:
    """Takes `--names=a,b` out of the arguments, which else are Prefect's."""
    given = [one for one in sys.argv if one.startswith(_NAMES)]
    sys.argv = [one for one in sys.argv if one not in given]
    return [name for one in given for name in one.removeprefix(_NAMES).split(",") if name]


if __name__ == "__main__":
    main()
