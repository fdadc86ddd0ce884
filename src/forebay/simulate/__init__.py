"""The same policies in virtual time: engine, sharing kernel, workloads, studies."""
