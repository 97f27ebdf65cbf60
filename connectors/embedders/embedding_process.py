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

    # For "match" the first text is a query, and the answer has the scores of the other texts.
    Operation = TextKind | Literal["match"]
    Embed = Callable[[str, Sequence[str], Operation], Embeddings]

# Wait for the socket while the process starts.
CONNECT_SECONDS: Final = 30.0
_CONNECTION_ERRORS: Final = (EOFError, OSError, multiprocessing.AuthenticationError)

# Socket of the process that runs the model; None if this process runs it.
_address: str | None = None


def set_process_address(address: str | None) -> None:
    """Set the socket of the process that runs the model; None for this process."""
    global _address  # noqa: PLW0603
    _address = address


def has_process_address() -> bool:
    """Check for a model that runs in another process."""
    return _address is not None


def request_vectors(model: str, texts: Sequence[str], operation: Operation) -> Embeddings:
    """Return vectors, or scores for "match", from the embedding process. Retryable while it is unavailable."""
    try:
        with _connect() as connection:
            connection.send((model, list(texts), operation))
            answer: Embeddings | tuple[bool, str] = connection.recv()
    except _CONNECTION_ERRORS as error:
        raise Retryable("The process that runs the local model ended or was restarted.") from error
    # An error of the model, see `_answer_request`.
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
    """Answer requests at a socket by `embed`, one thread per connection, until the worker ends."""
    threading.Thread(target=_end_with_worker, name="end-with-worker", daemon=True).start()
    Path(address).unlink(missing_ok=True)
    listener = Listener(address, family="AF_UNIX", backlog=64, authkey=bytes(multiprocessing.current_process().authkey))
    while True:
        try:
            connection = listener.accept()
        except _CONNECTION_ERRORS:
            continue
        threading.Thread(target=_answer_request, args=(connection, embed), daemon=True).start()


def _answer_request(connection: Connection[Any, Any], embed: Embed) -> None:
    with connection:
        try:
            model, texts, operation = connection.recv()
            try:
                answer: Any = embed(model, texts, operation)
            except (Fatal, Retryable) as error:
                answer = isinstance(error, Fatal), str(error)
            connection.send(answer)
        except _CONNECTION_ERRORS:
            return


def _end_with_worker() -> None:
    worker = multiprocessing.parent_process()
    if worker is not None:
        worker.join()
        os.kill(os.getpid(), signal.SIGKILL)


class EmbeddingProcess:
    """Context in which the process of the local model runs.

    `serve`: main function of the process, with the address of its socket.
    """

    def __init__(self, context: ForkServerContext, serve: Callable[[str], None]) -> None:
        self._context, self._serve = context, serve

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
        # Paths of sockets have at most 107 characters.
        return str(Path(self._folder) / "s")

    def keep_alive(self) -> None:
        """Start the process again if it has died."""
        if not self._process.is_alive():
            self._process.close()
            self._start()

    def _start(self) -> None:
        self._process = self._context.Process(target=self._serve, args=(self.address(),), name="embedding", daemon=True)
        self._process.start()
