"""Namespaces, their configurations and secrets."""
