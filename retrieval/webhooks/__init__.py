"""Webhooks: endpoints of clients, events and deliveries."""
