"""The ensemble study: a feature-ensemble attack on one given model."""
