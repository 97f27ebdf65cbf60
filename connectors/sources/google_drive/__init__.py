"""Google Drive, through its SDK."""
