"""`sparkgate doctor`: what keeps our servers from working in a host, level by level; looking is apart from judging."""
