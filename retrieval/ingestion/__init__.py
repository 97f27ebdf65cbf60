"""Steps of ingestion as plain functions: fetch, parse, chunk, embed, upsert. `flows` runs the steps as tasks."""
