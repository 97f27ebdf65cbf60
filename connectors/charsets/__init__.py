"""Decode charsets of pages, files, mails and sitemaps."""
