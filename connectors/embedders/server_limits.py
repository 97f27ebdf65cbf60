"""Form and limits of a model server: learnt from its answers, stored with the namespace and in the home."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

log = structlog.get_logger()


class Learned(
    msgspec.Struct, omit_defaults=True, frozen=True, rename={"texts": "textsPerRequest", "tokens": "tokensPerText"}
):
    """Form and limits of a model at an address. None: not known yet."""

    # Most texts of a request.
    texts: int | None = None
    # Tokens of the longest text that was accepted whole.
    tokens: int | None = None
    dimensions: int | None = None
    # True if the server returns base64 on request.
    base64: bool | None = None
    # True if the server returns vectors of length 1.
    normalized: bool | None = None
    # Path of the operation's URL, such as `/v1/embeddings`.
    path: str | None = None


class ServerLimits:
    """Limits of a model at an address. Thread-safe. `learned`: limits stored by the namespace."""

    # Limits learnt by requests are stored in the home and precede those of the namespace; the last writer wins.

    def __init__(
        self, home: Path, provider: str, address: str, model: str, learned: Mapping[str, Any] | None = None
    ) -> None:
        name = hashlib.sha256(f"{provider}\n{address}\n{model}".encode()).hexdigest()[:32]
        self._path = home / "model-servers" / f"{name}.json"
        self._lock = threading.Lock()
        self.learned = msgspec.convert(learned or {}, Learned)
        self._passed = 0
        self.reload()

    @property
    def texts(self) -> int | None:
        """Return the most texts of a request; None if not learnt."""
        return self.learned.texts

    def is_untried(self, texts: int) -> bool:
        """Return True if no request of this size has passed in this process."""
        return min(texts, self.texts or texts) > max(self._passed, self.texts or 0)

    def note_passed(self, texts: int) -> None:
        """Record in this process a passed request of this size."""
        self._passed = max(self._passed, texts)

    def reload(self) -> None:
        """Load limits stored by other processes."""
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
            with self._lock:
                self.learned = msgspec.convert(msgspec.to_builtins(self.learned) | stored, Learned)
        except (OSError, msgspec.MsgspecError):
            return

    def start_over(self) -> None:
        """Forget all limits."""
        # The server or its settings may have changed.
        with self._lock:
            self.learned, self._passed = Learned(), 0

    def learn(self, **changes: Any) -> None:
        """Store changes of `Learned`."""
        with self._lock:
            learned = msgspec.structs.replace(self.learned, **changes)
            if learned == self.learned:
                return
            self.learned = learned
            log.info("embedding_server.learned", **changes)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                new = self._path.with_suffix(f".{threading.get_native_id()}.new")
                new.write_bytes(msgspec.json.encode(learned))
                new.replace(self._path)
            except OSError as error:  # the changes last as long as this process
                log.warning("embedding_server.not_stored", path=str(self._path), why=error.strerror)
