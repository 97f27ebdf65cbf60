"""The Model Context Protocol: the API's operations as tools for language models."""
