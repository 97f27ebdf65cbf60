"""`model: auto` of the LOCAL provider: all-MiniLM-L6-v2 or multilingual-e5-small, by the languages of the content.

The choice is open only while nothing is searchable: the first documents with text decide before any is cut. A PATCH
with `auto` and `reembed` decides again, by all documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from retrieval.database.database import Database
from retrieval.errors import Skippable
from retrieval.ingestion.chunking.tokenizer import AUTO, E5, MINILM
from retrieval.ingestion.items import Item
from retrieval.ingestion.parse import read_text
from retrieval.ingestion.queries import model_choices
from retrieval.ingestion.queries.model_choices import CHOICE
from retrieval.keywords import languages
from retrieval.namespaces import namespaces, validation
from retrieval.namespaces.namespaces import LEARNED, Config, NamespaceConfig
from retrieval.ports import FileStore

FEW: Final = 5
"""Of so many documents one that is not in English has the multilingual model chosen."""
_NAMED: Final = 5
"""Languages that a reason names."""


class Choice(NamedTuple):
    """A local model, and why it was chosen."""

    model: str
    reason: str

    def config(self) -> dict[str, Any]:
        """Return the `embeddingModelConfig` of this choice."""
        return {"provider": "LOCAL", "model": self.model, LEARNED: {CHOICE: self.reason}}


def is_open(model: Config) -> bool:
    """Tell whether the service is to choose the model of this `embeddingModelConfig`."""
    return bool(model["provider"] == "LOCAL" and model["model"] == AUTO)


def choose_model(documents: Mapping[str, int], subject: str = "first documents") -> Choice:
    """Choose by the documents of each language; "" counts those with text in none that is detected.

    MiniLM where nearly all are in English; the other model reads every language, so it is taken without any.
    """
    counted = Counter({language: number for language, number in documents.items() if language})
    english, total = counted["en"], counted.total()
    shown = counted.most_common(_NAMED) or [("unknown", sum(documents.values()))]
    reason = f"{subject} by language: {', '.join(f'{language} {number:,}' for language, number in shown)}"
    if total and FEW * (total - english) < total:
        return Choice(MINILM, reason)
    if not validation.has_multilingual_model():
        return Choice(MINILM, f"{reason}; {E5} is not installed")
    return Choice(E5, reason)


def count_texts(texts: Iterable[tuple[str, str]]) -> Counter[str]:
    """Count texts by language, each with the one that it declares; without those that are blank."""
    return Counter(find_language(declared, text) or "" for text, declared in texts if text.strip())


def find_language(declared: str, text: str) -> str | None:
    """Return the language of a text as ISO 639-1: the declared one, or the one that is detected."""
    return languages.parse_language(declared) or languages.detect_language(text)


def choose_by_items(db: Database, namespace_id: str, parsed: Iterable[Item], files: FileStore) -> bool:
    """Store the choice by a namespace's first parsed documents, unless there is one; False if all are blank."""
    texts = []
    for item in parsed:
        try:
            texts.append((read_text(files, item.parsed_key or ""), str(item.properties.get("language") or "")))
        except Skippable:
            continue
    documents = count_texts(texts)
    if documents:
        model_choices.store_choice(db, namespace_id, *choose_model(documents))
    return bool(documents)


async def resolve_model(db: Database, stored: NamespaceConfig, *, again: bool) -> Config:
    """Return the config for a PATCH with `auto`: open in a namespace without documents, else what was chosen before.

    `again`, or where nothing was chosen, all documents decide.
    """
    model = stored.embedding_model
    if is_open(model) or not await namespaces.has_documents(db, stored.id):
        return {"provider": "LOCAL", "model": AUTO}
    if not again and CHOICE in (model.get(LEARNED) or {}):
        return model
    return choose_model(await model_choices.count_languages(db, stored.id), "all documents").config()
