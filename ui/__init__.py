"""The admin app: one more API client, for staff. It holds no secret but the key that the person signed in with."""
