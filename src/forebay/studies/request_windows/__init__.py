"""Windows of the twins scheduler, and who learns them: the evaluation of Bez et al. 2019."""
