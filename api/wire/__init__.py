"""What goes over the wire: msgspec structs in camelCase, requests and answers apart, never a table."""
