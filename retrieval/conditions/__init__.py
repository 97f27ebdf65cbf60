"""Conditions on documents: how they are read, decided in memory, and asked of the database."""
