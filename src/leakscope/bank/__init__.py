"""The run folder: who trained on what and what the models answered, safe against crashes."""
