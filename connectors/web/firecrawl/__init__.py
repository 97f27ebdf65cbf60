"""Pages and sites by Firecrawl, through its SDK."""
