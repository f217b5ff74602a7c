"""The students' archive.

archive: notebooks, utils, and public checks with data in place of cases, oracles and slips.
"""
