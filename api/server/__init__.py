"""HTTP/1.1 by Uvicorn within bounds: its protocol, its connections, its orderly end."""
