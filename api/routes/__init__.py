"""Thin handlers, one file per part of the contract."""
