"""The steps of ingestion, one plain function each: fetch, parse, chunk, embed, upsert. `flows` runs them as tasks."""
