"""Audits beside each other: differences with intervals."""
