"""Secrets at rest: those of namespaces and connections, and those of the installation itself."""
