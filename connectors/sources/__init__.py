"""Content services, one module each."""
