"""What a command says: words on standard error, answers on standard output."""
