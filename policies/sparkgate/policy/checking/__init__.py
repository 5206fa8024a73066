"""What the named checks of rules are made of."""
