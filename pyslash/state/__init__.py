"""`pyslash state`: what is in a query's checkpoint, its state as a table, and whether every byte of it is sound."""
