"""The Python beside a driver that has none with pyslash: it starts queries, and answers clients of Spark Connect."""
