"""What is read, by whom and when."""
