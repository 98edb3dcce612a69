"""Logs in chunks: listed, read and joined chunk by chunk, and gathered."""
