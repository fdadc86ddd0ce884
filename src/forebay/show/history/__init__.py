"""The history on the screen: documents for programs, tables and sentences for people, Parquet for everything else."""
