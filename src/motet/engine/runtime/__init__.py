"""The processor: reads records of the log in batches and returns the notifications they make final."""
