"""Installing: a wheel into an empty environment, an archive of one, an image's recipe."""
