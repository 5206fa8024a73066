"""Values and names that this machine knows, and where they are read."""
