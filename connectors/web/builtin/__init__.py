"""The built-in scraper: pages fetched by this service itself, politely."""
