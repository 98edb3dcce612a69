"""What users give: YAML files, values of the command line, and hints on wrong ones."""
