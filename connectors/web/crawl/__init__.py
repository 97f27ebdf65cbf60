"""What there is to fetch: URL lists, sitemaps, and websites walked by their links."""
