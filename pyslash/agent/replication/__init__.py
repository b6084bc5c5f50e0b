"""Copies of an agent's share of the state in the memory of another agent, the standby."""
