"""What all formats share: verbatim texts, properties, XML, clean Markdown."""
