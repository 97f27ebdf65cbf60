"""Background work: garbage collection, index upkeep, key rotation, checks, exports and imports."""
