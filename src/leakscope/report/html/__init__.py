"""report.html: one self-contained file that works offline, from an e-mail, for years."""
