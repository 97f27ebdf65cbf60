#!/bin/sh
# Runs once, on an empty volume: the database of Prefect's server, next to the service's own.
set -eu
createdb --username "$POSTGRES_USER" prefect
psql --username "$POSTGRES_USER" --dbname prefect --quiet --command 'create extension pg_trgm'
psql --username "$POSTGRES_USER" --dbname retrieval --quiet --command 'create extension vector'
