"""Checks of addresses and URLs."""
