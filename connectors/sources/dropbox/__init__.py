"""Dropbox, through its SDK."""
