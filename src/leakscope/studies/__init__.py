"""Published experiments, reproduced: one package per study."""
