"""The asynchronous client; `_sync` is written from it by `generate.py`."""
