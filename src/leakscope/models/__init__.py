"""Networks we ship, networks of the user's own, and models that someone else trained."""
