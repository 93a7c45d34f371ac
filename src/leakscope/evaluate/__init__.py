"""From a bank to figures with intervals, checks, a gate and a verdict."""
