"""A first config file for records of one's own: look at them, guess what columns are for, write."""
