"""Tests of `pyslash._native`, one file a class."""
