"""What a user's code is: everything of theirs that it runs. A bank is reused only for the same code."""
