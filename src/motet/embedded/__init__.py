"""The live cloud inside one Python process, without Spark."""
