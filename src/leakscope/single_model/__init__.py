"""One given model: public labels in, private scores out."""
