"""`sparkgate audit web`: the log as pages on this machine, read-only, with Datasette."""
