"""Files to Markdown: `detect` the type, read `formats` in limited child processes (`process`), recognise text
(`ocr`).
"""
