"""How large the state of an operator is, and which keys have the most of it."""
