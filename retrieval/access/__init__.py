"""Who may see which documents of a scope: groups, viewers, and what is written on documents."""
