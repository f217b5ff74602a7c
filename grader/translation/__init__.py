"""Catalogues for courses in other languages.

sentences: what students are told outside notebooks, found in the sources. catalogues: PO files, brought up to date with
them. command: `python -m grader translate`.
"""
