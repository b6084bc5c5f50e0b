"""What tests share: streams and their sources, checkpoints, servers, settings of their JVMs."""
