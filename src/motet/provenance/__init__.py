"""Explanations by the definitions of the language page: why a notification exists, and why an event led to none."""
