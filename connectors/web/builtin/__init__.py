"""Built-in scraper."""
