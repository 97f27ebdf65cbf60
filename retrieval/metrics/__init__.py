"""Figures for Prometheus: counted in each process, added up in the database, and served by any process.

So all processes of all machines share the same figures, whichever of them dies.
"""
