"""Networks we ship, one a file; `build` also takes a user's own "package.module:factory"."""
