"""What every room may use: contracts of tables, scenarios, I/O classes, words."""
