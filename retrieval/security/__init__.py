"""Secrets at rest of namespaces, connections and the installation."""
