"""Putting our entries into the files of hosts, and taking them out again, without touching anything else there."""
