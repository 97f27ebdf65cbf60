"""The service itself: what it keeps, how it changes and how it is found. No HTTP server, no Prefect, no vendor."""
