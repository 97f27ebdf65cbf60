"""Retrievers for the libraries that people build with: `pip install retrieval-client[langchain]`, and so on."""
