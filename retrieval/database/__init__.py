"""PostgreSQL: connection pools, the schema, partitions of scopes, cursors and pages of listings."""
