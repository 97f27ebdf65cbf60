"""The service's data, changes and search, without HTTP server, Prefect and vendors."""
