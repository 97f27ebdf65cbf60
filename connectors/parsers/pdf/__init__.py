"""PDF: pages, text layer, images, ranges of pages, rendering."""
