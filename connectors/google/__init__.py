"""Google's services: requests by the SDK, authorization, and organizations by a service account."""
