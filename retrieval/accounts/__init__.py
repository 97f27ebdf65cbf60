"""Organizations with API keys, tenants, usage and quotas; audit log; idempotency keys."""
