"""An audit of a population, a given model, saved predictions or merged banks."""
