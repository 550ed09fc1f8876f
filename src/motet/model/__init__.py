"""What every other part speaks about: terms, intervals, events, notifications, errors.

No I/O here, and nothing that knows how events arrive or how they are matched.
"""
