"""The policies in virtual time: engine, sharing kernel, workloads."""
