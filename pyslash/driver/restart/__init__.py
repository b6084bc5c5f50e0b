"""A driver, an agent or a checkpoint is another one than before: where the state is, and who has it."""
