"""Programs of the user that load as one of our loaders, as the models know them."""
