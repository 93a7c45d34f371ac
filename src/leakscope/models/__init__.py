"""Shipped networks, one per file; `build` also takes a user's own "package.module:factory"."""
