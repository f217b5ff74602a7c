"""The students' archive.

bundle: writes it. public_source, public_cases: exercises without what makes their cases and results.
"""
