"""What an agent holds of its queries, behind one lock: `state` has it, the others are its parts."""
