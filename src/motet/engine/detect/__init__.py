"""How do events combine in time? Every operator of the language as an incremental operator over columns.

Occurrences travel as tables of numbers (`occurrences`); strings are looked up only where order or delivery needs them
(`dictionary`, `order`). Each operator keeps tables of what may still matter and is driven by the frontier:

    pairing     AND, ALONGSIDE and the Allen relations, in every context
    absence     UNLESS, WITHOUT, XOR and NO
    iteration   A{n} and A+
    passing     OR, WITHIN and FILTER, which remember nothing
    distinct    each occurrence once
    detector    the operators of a plan, in order
    deliver     from occurrences to notifications
    construct   derived events
    saving      state as bytes: base and deltas, merged, spread over buckets
"""
