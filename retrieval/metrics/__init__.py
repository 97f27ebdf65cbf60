"""Figures for Prometheus: counted in each process, added up in the database, read from there by whoever is asked.

So every process of every machine counts in the same figures, whichever of them dies, and any of them can tell them.
"""
