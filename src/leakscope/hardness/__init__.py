"""How hard is a record to learn? One measure a file, each a pure function of what a bank keeps."""
