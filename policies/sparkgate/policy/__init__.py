"""What may leave, in which form, and the record of it."""
