"""Detection: every operator of the language as an incremental operator over tables of occurrences.

Occurrences are rows of integers (`occurrences`); strings are looked up where order or output needs them (`dictionary`,
`order`). Each operator keeps the rows that may still contribute, and the frontier drives it:

    pairing     AND, ALONGSIDE and the Allen relations, in every context
    absence     UNLESS, WITHOUT, XOR and NO
    iteration   A{n} and A+
    stateless   OR, WITHIN and FILTER
    distinct    removal of repeated occurrences
    detector    the operator nodes of a plan
    leaves      the occurrences of leaves, from matched events
    output      notifications of root nodes
    construct   derived events
"""
