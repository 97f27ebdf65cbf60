"""Webhooks: endpoints of clients, their events, and how these are sent."""
