"""Adapters of ports to vendors and libraries: one module each, with the SDK imported on first use."""
