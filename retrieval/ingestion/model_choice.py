"""Model choice for `model: auto`: all-MiniLM-L6-v2 or multilingual-e5-small, by the languages of the content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from retrieval.database.database import Database
from retrieval.errors import Skippable
from retrieval.ingestion.chunking.tokenizer import AUTO_MODEL, E5_MODEL, MINILM_MODEL, is_model_open
from retrieval.ingestion.items import Item
from retrieval.ingestion.parse import read_text
from retrieval.ingestion.queries import model_choices
from retrieval.ingestion.queries.model_choices import CHOICE_FIELD
from retrieval.keywords import languages
from retrieval.namespaces import namespaces, validation
from retrieval.namespaces.namespaces import LEARNED_FIELD, Config, NamespaceConfig
from retrieval.ports import FileStore

# Open only until something is searchable: the first documents with text decide before chunking. A PATCH with `auto` and
# `reembed` decides again by all documents.

# One non-English document in five selects the multilingual model.
FOREIGN_SHARE_DIVISOR: Final = 5
_MAX_NAMED_LANGUAGES: Final = 5


class ModelChoice(NamedTuple):
    """Local model and the reason for the choice."""

    model: str
    reason: str

    def to_config(self) -> dict[str, Any]:
        """Return the `embeddingModelConfig` of this choice."""
        return {"provider": "LOCAL", "model": self.model, LEARNED_FIELD: {CHOICE_FIELD: self.reason}}


def choose_model(documents: Mapping[str, int], subject: str = "first documents") -> ModelChoice:
    """Choose by the number of documents per language; "" counts texts without a detected language."""
    counts = Counter({language: number for language, number in sorted(documents.items()) if language})
    english, total = counts["en"], counts.total()
    top_languages = counts.most_common(_MAX_NAMED_LANGUAGES) or [("unknown", sum(documents.values()))]
    reason = f"{subject} by language: {', '.join(f'{language} {number:,}' for language, number in top_languages)}"
    # Without a detected language the multilingual model is the safe choice.
    if total and FOREIGN_SHARE_DIVISOR * (total - english) < total:
        return ModelChoice(MINILM_MODEL, reason)
    if not validation.has_multilingual_model():
        return ModelChoice(MINILM_MODEL, f"{reason}; {E5_MODEL} is not installed")
    return ModelChoice(E5_MODEL, reason)


def count_texts(texts: Iterable[tuple[str, str]]) -> Counter[str]:
    """Count non-blank texts by language. Input: pairs of text and declared language."""
    return Counter(find_language(declared, text) or "" for text, declared in texts if text.strip())


def find_language(declared: str, text: str) -> str | None:
    """Return the language of a text as ISO 639-1: declared, else detected."""
    return languages.parse_language(declared) or languages.detect_language(text)


def choose_by_items(db: Database, namespace_id: str, parsed: Iterable[Item], files: FileStore) -> bool:
    """Store the choice by a namespace's first parsed documents, unless present; False if all are blank."""
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


async def resolve_model(db: Database, stored: NamespaceConfig, *, force: bool) -> Config:
    """Return the config for a PATCH with `auto`: open without documents, else the earlier choice, else by all
    documents."""
    model = stored.embedding_model
    if is_model_open(model) or not await namespaces.has_documents(db, stored.id):
        return {"provider": "LOCAL", "model": AUTO_MODEL}
    if not force and CHOICE_FIELD in (model.get(LEARNED_FIELD) or {}):
        return model
    return choose_model(await model_choices.count_languages(db, stored.id), "all documents").to_config()
