"""Running a command without a network: namespaces, Landlock, seccomp, and two doors. Standard library only."""
