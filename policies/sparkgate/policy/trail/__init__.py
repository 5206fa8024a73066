"""The chain that ties the rows of the log together: its links, its head outside, its proof, its pruning."""
