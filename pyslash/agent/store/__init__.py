"""The state that an agent holds of its queries, behind one lock: `state` has it, the other modules are its parts."""
