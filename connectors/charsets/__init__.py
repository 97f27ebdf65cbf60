"""Charsets of pages, files, mails and sitemaps: one way to decode them all."""
