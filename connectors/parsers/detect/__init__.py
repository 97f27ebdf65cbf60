"""What a file is: its type, its encoding, its characters."""
