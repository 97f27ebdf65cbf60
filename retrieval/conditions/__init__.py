"""Conditions on documents (D64): how they are read, decided in memory, and asked of the database."""
