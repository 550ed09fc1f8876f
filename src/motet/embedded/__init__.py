"""Motet inside one Python process: batch runs and the live cloud, without Spark."""
