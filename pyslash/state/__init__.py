"""`pyslash state`: what a query's checkpoint holds, its state as a table, and whether every byte is sound."""
