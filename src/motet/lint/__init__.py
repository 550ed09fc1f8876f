"""Diagnostics for subscriptions: patterns that never match, are redundant, hold much state, or look like mistakes."""
