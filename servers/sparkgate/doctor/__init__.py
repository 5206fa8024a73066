"""Known traps of engines and their machine."""
