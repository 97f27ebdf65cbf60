"""Documents as clients manage them: listings, metadata, history, stored files, deletion."""
