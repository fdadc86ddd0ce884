"""Which disks hold each job's data: the evaluation of Monniot et al. 2023."""
