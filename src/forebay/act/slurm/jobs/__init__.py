"""What happens before and after each job of Slurm's."""
