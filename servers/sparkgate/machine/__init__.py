"""This machine: its processes, ports, memory and files."""
