"""Plans when Slurm's jobs start, and steers Slurm so that it follows the plan."""
