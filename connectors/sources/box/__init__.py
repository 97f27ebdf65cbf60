"""Box, through its SDK."""
