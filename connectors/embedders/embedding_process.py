"""Run the local model in one process for all processes of a worker."""

# The process listens on a socket in a folder that only this user can open, and answers processes that share the key of
# multiprocessing.

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from retrieval.errors import Fatal, Retryable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.context import ForkServerContext

    from retrieval.ports import Embeddings, TextKind

    # `match`: the first text is a query; the answer has scores of the others.
    Operation = TextKind | Literal["match"]
    Embed = Callable[[str, Sequence[str], Operation], Embeddings]

# Seconds for which a process waits for a socket that is not there yet, as after a restart.
CONNECT_SECONDS: Final = 30.0
_ERRORS: Final = (EOFError, OSError, multiprocessing.AuthenticationError)

# Socket of the embedding process; None if this process runs the model.
_address: str | None = None


def use_process(address: str | None) -> None:
    """Use the process at this socket; None runs the model in this process."""
    global _address  # noqa: PLW0603
    _address = address


def is_used() -> bool:
    return _address is not None


def request_vectors(model: str, texts: Sequence[str], operation: Operation) -> Embeddings:
    """Return vectors or scores from the embedding process. Retryable while unavailable."""
    try:
        with _connect() as connection:
            connection.send((model, list(texts), operation))
            answer: Embeddings | tuple[bool, str] = connection.recv()
    except _ERRORS as error:
        raise Retryable("The process that runs the local model ended or was restarted.") from error
    if isinstance(answer, tuple):
        is_fatal, message = answer
        raise Fatal(message) if is_fatal else Retryable(message)
    return answer


def _connect() -> Connection[Any, Any]:
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return Client(_address or "", family="AF_UNIX", authkey=bytes(multiprocessing.current_process().authkey))
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def serve_vectors(address: str, embed: Embed) -> None:
    """Answer requests, one thread for each connection, until the worker ends."""
    threading.Thread(target=_follow_worker, name="follow-worker", daemon=True).start()
    Path(address).unlink(missing_ok=True)
    listener = Listener(address, family="AF_UNIX", backlog=64, authkey=bytes(multiprocessing.current_process().authkey))
    while True:
        try:
            connection = listener.accept()
        except _ERRORS:
            continue
        threading.Thread(target=_answer, args=(connection, embed), daemon=True).start()


def _answer(connection: Connection[Any, Any], embed: Embed) -> None:
    with connection:
        try:
            model, texts, operation = connection.recv()
            try:
                answer: Any = embed(model, texts, operation)
            except (Fatal, Retryable) as error:
                answer = isinstance(error, Fatal), str(error)
            connection.send(answer)
        except _ERRORS:
            return


def _follow_worker() -> None:
    worker = multiprocessing.parent_process()
    if worker is not None:
        worker.join()
        os.kill(os.getpid(), signal.SIGKILL)


class EmbeddingProcess:
    """Start, restart and end the process of the local model."""

    def __init__(self, forks: ForkServerContext, serve: Callable[[str], None]) -> None:
        self._forks, self._serve = forks, serve

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="embed-")
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def join(self) -> None:
        self._process.join()

    def address(self) -> str:
        return str(Path(self._folder) / "s")

    def keep_alive(self) -> None:
        """Start the process again if it has died."""
        if not self._process.is_alive():
            self._process.close()
            self._start()

    def _start(self) -> None:
        self._process = self._forks.Process(target=self._serve, args=(self.address(),), name="embedding", daemon=True)
        self._process.start()
