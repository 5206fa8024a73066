"""What runs here, as proposals for the catalogue."""
