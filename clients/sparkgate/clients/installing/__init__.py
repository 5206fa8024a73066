"""Putting the gate in systemd's hands, and taking it out again: units as data, and plans of small steps."""
