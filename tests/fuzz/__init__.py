"""Fuzzing of everything that reads a file: whatever the bytes, a valid value or one sentence.

One module per reader (a *target*) says which bytes to begin with (`SEEDS`), which words are worth inserting (`TOKENS`)
and what to do with an input (`one_input`). `python -m fuzz NAME` lets atheris drive it; `test_fuzz.py` drives each with
a few hundred seeded mutations and needs no atheris. See README.md.
"""
