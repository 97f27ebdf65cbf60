"""Admin app for staff: an API client without secrets except the key of the signed-in person."""
