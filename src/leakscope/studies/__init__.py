"""Published experiments, reproduced and decided, one a file."""
