"""How fast applications write files that are striped over targets: a model of two machines, run by run."""
