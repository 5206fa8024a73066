"""What may pass the model door, and what an engine behind it could be made to do for an agent that has no network."""
