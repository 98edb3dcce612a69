"""Tells the epochs of a program that knows nothing of it; standard library only.

It runs in the program's Python, which may be 3.8 or newer, and never raises into it.
"""
