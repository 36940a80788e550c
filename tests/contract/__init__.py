"""The contract, promise by promise: one file for each of its sections, and some for what goes beyond it.

`rows.py` lists every row of the contract; `test_rows.py` sees to it that each is named by a test.
"""
