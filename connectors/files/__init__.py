"""File stores for raw and parsed files."""
