"""Limits of an embedding server that only its refusals tell, kept in the home for other processes."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import msgspec
import structlog

log = structlog.get_logger()


class _Record(msgspec.Struct, omit_defaults=True):
    texts: int | None = None
    base64: bool | None = None


class ServerLimits:
    """Limits of one model at one address. Safe to use from several threads; the newest of several processes counts."""

    def __init__(self, home: Path, provider: str, address: str, model: str) -> None:
        name = hashlib.sha256(f"{provider}\n{address}\n{model}".encode()).hexdigest()[:32]
        self._path = home / "model-servers" / f"{name}.json"
        self._lock = threading.Lock()
        self._record = _Record()
        self._passed = 0
        self.reload()

    @property
    def texts(self) -> int | None:
        """Most texts of a request; None until a request was refused for their number."""
        return self._record.texts

    @property
    def base64(self) -> bool | None:
        """Support of vectors in base64; None until a request has shown it."""
        return self._record.base64

    def is_untried(self, texts: int) -> bool:
        """No request as large as this one would be has passed in this process."""
        return min(texts, self.texts or texts) > max(self._passed, self.texts or 0)

    def note_passed(self, texts: int) -> None:
        """Remember, in this process, that a request of so many texts passed."""
        self._passed = max(self._passed, texts)

    def reload(self) -> None:
        """Take over what other processes have stored since."""
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return
        with self._lock:
            self._record = stored

    def learn(self, **changes: Any) -> None:
        """Store `texts` or `base64`; where the home cannot be written, this process alone knows it."""
        with self._lock:
            record = msgspec.structs.replace(self._record, **changes)
            if record == self._record:
                return
            self._record = record
            log.info("embedding_server.learned", **changes)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                new = self._path.with_suffix(f".{threading.get_native_id()}.new")
                new.write_bytes(msgspec.json.encode(record))
                new.replace(self._path)
            except OSError as error:
                log.warning("embedding_server.not_stored", path=str(self._path), why=error.strerror)
