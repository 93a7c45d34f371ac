"""The run folder: the models' design and signals on disk, safe against crashes."""
