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
    """Form and limits of one model at one address. None: not known yet."""

    texts: int | None = None
    """Most texts of a request."""
    tokens: int | None = None
    """Tokens of the longest text that was accepted whole."""
    dimensions: int | None = None
    base64: bool | None = None
    """True if the server returns base64 on request."""
    normalized: bool | None = None
    """True if the server returns vectors of length 1."""
    path: str | None = None
    """Path of the embeddings operation, relative to the configured URL."""


class ServerLimits:
    """Limits of one model at one address. Safe to use from several threads; the newest of several processes counts.

    learned: as the namespace stores it; what later requests have shown is in the home and counts more.
    """

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
        """Most texts of a request; None until a request was refused for their number."""
        return self.learned.texts

    def is_untried(self, texts: int) -> bool:
        """No request as large as this one would be has passed in this process."""
        return min(texts, self.texts or texts) > max(self._passed, self.texts or 0)

    def note_passed(self, texts: int) -> None:
        """Remember, in this process, that a request of so many texts passed."""
        self._passed = max(self._passed, texts)

    def reload(self) -> None:
        """Take over what other processes have stored since."""
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
            with self._lock:
                self.learned = msgspec.convert(msgspec.to_builtins(self.learned) | stored, Learned)
        except (OSError, msgspec.MsgspecError):
            return

    def start_over(self) -> None:
        """Forget everything: the server, or its settings, may be others by now."""
        with self._lock:
            self.learned, self._passed = Learned(), 0

    def learn(self, **changes: Any) -> None:
        """Store changes of `Learned`; where the home cannot be written, this process alone knows them."""
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
            except OSError as error:
                log.warning("embedding_server.not_stored", path=str(self._path), why=error.strerror)
