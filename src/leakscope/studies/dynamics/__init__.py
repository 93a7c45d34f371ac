"""The dynamics study: when a record becomes vulnerable."""
