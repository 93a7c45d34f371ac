"""What every run folder offers, whatever its kind: verify, rebuild the report, schema."""
