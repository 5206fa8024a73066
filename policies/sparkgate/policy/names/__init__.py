"""Names of clients and projects, as they are written in texts."""
