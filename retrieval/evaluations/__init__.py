"""Evaluations: judged questions, and what settings of the search make of them."""
