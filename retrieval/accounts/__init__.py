"""Organizations, their API keys and tenants, what they use, and idempotency keys."""
