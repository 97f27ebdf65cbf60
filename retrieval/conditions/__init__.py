"""Conditions on documents: parsed, evaluated in memory, and translated to SQL."""
