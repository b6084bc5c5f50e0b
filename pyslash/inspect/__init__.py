"""What a person looks at: the state in a checkpoint, a machine, what is covered."""
