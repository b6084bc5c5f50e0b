"""`pyslash state`: what a checkpoint holds."""
