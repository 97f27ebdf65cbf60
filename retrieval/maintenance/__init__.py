"""What runs in the background: garbage collection and key rotation."""
