"""What two or more audits of the same records say beside each other; `leakscope.compare` is the way in."""
