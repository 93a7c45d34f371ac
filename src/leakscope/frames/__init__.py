"""A user's table as it is, and what was read in its columns."""
