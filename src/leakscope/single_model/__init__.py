"""One given model: public membership in, private scores out."""
