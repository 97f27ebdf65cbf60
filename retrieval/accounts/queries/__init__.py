"""Statements of accounts as functions with typed rows."""
