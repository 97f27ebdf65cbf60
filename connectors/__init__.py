"""Everything that speaks to a vendor or a library for a port: one module each, its SDK imported on first use."""
