"""Prometheus metrics: counted per process, summed in the database, served by any process."""
