"""Escapes from a confinement, each really tried, so that `sparkgate doctor --attack` tells what is closed."""
