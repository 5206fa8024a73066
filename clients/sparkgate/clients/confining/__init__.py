"""What `sparkgate confine` asks for: the places of a host, and those of sparkgate itself."""
