"""Keyword index: analysis of texts, postings of their terms, and packed posting lists."""
