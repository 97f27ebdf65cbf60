"""Namespaces and their configurations, with the rules for their secrets."""
