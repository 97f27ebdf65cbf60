"""Statements of accounts, each a function that returns typed rows."""
