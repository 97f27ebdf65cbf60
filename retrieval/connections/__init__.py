"""Connections to content services: their tokens, their schedules, their state of synchronization."""
