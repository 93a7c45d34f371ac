"""The leakage study: bits about one membership."""
