"""One machine, nothing installed: embedded Postgres, process supervisor, demo and the `retrieval` command."""
