"""Parts shared by pages."""
