"""Which disks hold each job's data.

A storage policy is a kernel `(ledger, size, start, end, duration, turn) -> disk`, the number of
the disk that is to hold `size` bytes over [start, end), or REFUSED. It looks at the ledger and
changes nothing but `turn`, in which it may remember whose turn it is and draw from chance.
`duration` is the job's own; only where a start was put off can it differ from `end - start`.
"""
