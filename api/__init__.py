"""What clients see: the HTTP API."""
