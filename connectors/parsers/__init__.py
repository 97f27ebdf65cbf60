"""Files to Markdown: what a file is (kinds), its characters (plain), its pages (pages), read in limited children (pool)."""
