"""File stores: where raw and parsed files lie."""
