"""Search: vector and keyword candidates, their fusion, reranking, context, diversity and explanations."""
