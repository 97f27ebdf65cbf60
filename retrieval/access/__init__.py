"""Who may see which documents of a scope (D69): groups, viewers, and what is written on documents."""
