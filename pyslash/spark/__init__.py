"""Spark, and the JVM it runs in."""
