"""Requests and responses of the HTTP API as msgspec structs in camelCase, independent of the database tables."""
