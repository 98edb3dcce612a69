"""Keys of files whose values the code uses as mappings."""
