"""What people see: the command line, tables, figures, reports."""
