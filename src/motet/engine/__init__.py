"""From events to notifications: pure functions over batches, no I/O, no clock, no Spark."""
