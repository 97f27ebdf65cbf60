"""Discovery of pages: URL lists, sitemaps, and websites walked by their links."""
