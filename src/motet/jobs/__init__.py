"""What users request of a lake or of files, on any engine: run, replay, verify, diff, why and why-not."""
