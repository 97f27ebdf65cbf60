"""Files to Markdown: what a file is (kinds), its text (plain), its pages (pages); read in limited children (pool)."""
