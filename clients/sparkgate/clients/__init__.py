"""The command line, and the hosts that sparkgate registers with."""
