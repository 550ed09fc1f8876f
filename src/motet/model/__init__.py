"""The data model: terms, times, batches of events and records, control records, the frontier, notifications, errors.

It does no I/O and knows neither how events arrive nor how they are matched.
"""
