"""Web pages: fetched politely and safely, found by lists, sitemaps and links."""
