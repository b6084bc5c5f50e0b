"""The driver's side: the hook into `DataStreamWriter`, and the life of an epoch."""
