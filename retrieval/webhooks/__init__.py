"""Webhooks: endpoints of clients, what they are told, and how it is sent."""
