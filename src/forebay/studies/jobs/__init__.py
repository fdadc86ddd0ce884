"""When each job starts, and on which bytes: scheduling policies on job logs, after Kopanski and Rzadca 2021."""
