"""What is said: words on standard error, answers on standard output, and figures."""
