"""Search: BM25, hydration of candidates, fusion."""
