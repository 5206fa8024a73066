"""What left lately: pieces of several texts, and how much it was."""
