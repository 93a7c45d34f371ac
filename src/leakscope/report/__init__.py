"""Reports and figures: reads results, computes nothing."""
